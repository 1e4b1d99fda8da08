//! Tests each kind of secret that was once missed, and texts that look like one. All secrets are made up.

use retro_redact::Redactor;

fn redact_text(text: &str) -> String {
    Redactor::shared().redact_text(text).into_owned()
}

/// Checks that the secret is redacted from the text, and that a second redaction changes nothing.
#[track_caller]
fn check_redacted(cases: &[(&str, &str)]) {
    let mut missed = Vec::new();
    for (text, secret) in cases {
        assert!(text.contains(secret), "{text:?} does not contain {secret:?}");
        let clean = redact_text(text);
        if clean.contains(secret) || !clean.contains("[redacted:") {
            missed.push(clean.clone());
        }
        assert_eq!(redact_text(&clean), clean, "redacting {text:?} twice");
    }
    assert!(missed.is_empty(), "missed: {missed:#?}");
}

#[track_caller]
fn check_kept(texts: &[&str]) {
    for text in texts {
        assert_eq!(redact_text(text), *text);
    }
}

#[test]
fn cookies_are_redacted() {
    check_redacted(&[
        ("Set-Cookie: sid=Ab3dEf6hIj; Path=/; HttpOnly", "Ab3dEf6hIj"),
        ("< set-cookie: __Host-token=abcDEF123456; Secure", "abcDEF123456"),
        (r#"{"Set-Cookie": "JSESSIONID=0A1B2C3D4E5F; Path=/"}"#, "0A1B2C3D4E5F"),
        ("('Set-Cookie', 'laravel_session=q1w2e3r4t5y6; path=/')", "q1w2e3r4t5y6"),
        ("Cookie: theme=dark; session=8f14e45fceea167a", "8f14e45fceea167a"),
        (r#"curl -b "PHPSESSID=q1w2e3r4t5" https://shop.example"#, "q1w2e3r4t5"),
        ("curl --cookie 'auth=q1w2e3r4t5; lang=en' https://shop.example", "q1w2e3r4t5"),
    ]);
    check_kept(&[
        "Set-Cookie without SameSite=Lax is refused",
        "Set-Cookie: session=deleted; Max-Age=0",
        "Cookie: disabled",
        "curl -b cookies.txt https://shop.example",
        "The cookie banner: path=/legal was not found",
    ]);
}

#[test]
fn password_files_are_redacted() {
    check_redacted(&[
        ("machine api.example.com login joe password sw0rdfish", "sw0rdfish"),
        ("machine api.example.com\n  login joe\n  password swordfish\n", "swordfish"),
        (r"machine api.example.com\n  login joe\n  password swordfish\n", "swordfish"),
        ("machine api.example.com password swordfish login joe", "swordfish"),
        ("default login anonymous password swordfish", "swordfish"),
        ("db.example.com:5432:app:joe:swordfish", "swordfish"),
        ("*:*:*:postgres:Tr0ub4dor", "Tr0ub4dor"),
        ("echo 'localhost:5432:*:joe:swordfish' > ~/.pgpass", "swordfish"),
        ("root:$6$saltsalt$Qm9vayBvZiBoYXNoZXMgYW5kIHNhbHQ:19000:0:99999:7:::", "Qm9vayBvZiBoYXNoZXM"),
        ("joe:$apr1$saltsalt$Hx8Yq0.cVbN3mK5jL7hG9/", "Hx8Yq0.cVbN3mK5jL7hG9/"),
        (r#"//registry.npmjs.org/:_password="c3dvcmRmaXNoMTIz""#, "c3dvcmRmaXNoMTIz"),
    ]);
    check_kept(&[
        "machine learning login flow: password policy",
        "default password policy is strict",
        "src/main.rs:12:5:warning:unused",
        "src/main.c:5432:5:error:expected",
        "ports: 5432:5432 and 6432:6432",
        "The price is $1 and then $5 a month",
    ]);
}

#[test]
fn passwords_of_commands_are_redacted() {
    check_redacted(&[
        ("sshpass -p swordfish ssh joe@example.com", "swordfish"),
        ("sshpass -p 'sword fish' ssh joe@example.com", "sword fish"),
        ("sshpass -pswordfish ssh joe@example.com", "swordfish"),
        ("htpasswd -b /etc/nginx/.htpasswd joe swordfish", "swordfish"),
        ("htpasswd -nbB joe swordfish | tee users", "swordfish"),
        ("htpasswd -c -b users joe 'sword fish' && nginx", "sword fish"),
        ("mysql -u root -pswordfish app", "swordfish"),
        ("redis-cli -h cache -a swordfish ping", "swordfish"),
        ("curl -u joe:swordfish https://example.com", "swordfish"),
        ("docker login -u joe -p swordfish registry.example.com", "swordfish"),
        ("echo swordfish | sudo -S apt update", "swordfish"),
        (r#"echo "swordfish" | docker login --password-stdin"#, "swordfish"),
        ("echo 'joe:swordfish' | chpasswd", "swordfish"),
        ("openssl rsa -in key.pem -passin pass:swordfish", "swordfish"),
        ("keytool -list -storepass swordfish", "swordfish"),
        ("ldapsearch -x -D cn=admin -w swordfish", "swordfish"),
        (r"net use Z: \\srv\share swordfish /user:joe", "swordfish"),
        ("smbclient //srv/share -U joe%swordfish", "swordfish"),
        ("wpa_passphrase home swordfish", "swordfish"),
        ("gpg --passphrase='correct horse' -c file", "correct horse"),
        ("export PGPASSWORD=swordfish", "swordfish"),
        ("DB_PASSWORD=swordfish npm start", "swordfish"),
        (r#"psql "host=db user=joe password=swordfish""#, "swordfish"),
        ("jdbc:mysql://db/app?user=joe&password=swordfish", "swordfish"),
        ("jdbc:oracle:thin:scott/tiger99@db:1521/app", "tiger99"),
        ("CREATE USER joe WITH PASSWORD 'swordfish';", "swordfish"),
        ("ALTER USER 'joe'@'%' IDENTIFIED BY 'swordfish';", "swordfish"),
        ("requirepass swordfish", "swordfish"),
        ("username joe privilege 15 secret 5 swordfish", "swordfish"),
    ]);
    check_kept(&[
        "sshpass -V",
        "sshpass -f passwords.txt ssh joe@example.com",
        "htpasswd -c users joe",
        "docker run -p 8080:80 -u 1000:1000 nginx",
        r#"curl -u "$USER:$PASS" https://example.com"#,
        r#"curl -A "Mozilla/5.0 (X11)" https://example.com"#,
        "export PGPASSWORD=$PW",
        "DB_PASSWORD=${DB_PASSWORD}",
        "password = getpass.getpass()",
        "    password=password,",
        "PASSWORD=required",
        "mysql --print-defaults; mkdir -p dist",
        "echo hello | sudo tee /etc/motd",
        "7z x -pfoo",
        "CREATE USER joe WITH PASSWORD $1",
        "IDENTIFIED BY ?",
        "Authorize requests using a username and password pair.",
    ]);
}

#[test]
fn passwords_with_spaces_and_passphrases_are_redacted() {
    check_redacted(&[
        (r#"password: "correct horse battery staple""#, "horse"),
        ("password = 'my dog has 3 legs'", "dog"),
        (r#""passphrase": "purple monkey dishwasher""#, "monkey"),
        (r#"psk="swordfish and chips""#, "chips"),
        ("Passphrase: correct horse battery staple", "horse"),
        ("mnemonic: legal winner thank year wave sausage worth useful legal winner thank yellow", "sausage"),
        ("the password is hunter2", "hunter2"),
        ("Your password has been reset to `Xk9-wq2!`", "Xk9-wq2!"),
        (r#"login("joe", password="s3cret")"#, "s3cret"),
        (r#"auth: { user: "joe", pass: "swordfish" }"#, "swordfish"),
        (r#"conn.setPassword("sw0rdfish")"#, "sw0rdfish"),
        ("pass: sw0rdfish!", "sw0rdfish!"),
        (r#"password = "a{{b}c)d${e]f(g[h>-_$#i}}""#, "f(g[h"),
        ("password = a{{b}c)d${e]f(g[h>-_$#i}}", "f(g[h"),
        (r#"api_key = "qWxZrTkLpMnBvCsD""#, "qWxZrTkL"),
    ]);
    check_kept(&[
        r#"password: "Please enter your password""#,
        r#""password": "Password must have 8 characters""#,
        r#""password": "Your new password""#,
        "passphrase: the words you chose when you made the key",
        "Enter passphrase for key '/home/joe/.ssh/id_rsa':",
        "the password is wrong",
        "the password is required",
        "password is stored as sha256",
        r#"["username", "password", "email"]"#,
        "assert password == expected_password",
        r#"password: "{{ vault_password }}""#,
        r#"password = f"{user}-{date}""#,
        "password = options.password!",
        "secret: HashMap<String, String>",
        r#"token = "refreshTokenOfTheSession""#,
        "PASS src/components/Button.test.js",
        "pass: 12/14 fail: 2/14",
    ]);
}

#[test]
fn passwords_in_other_languages_are_redacted() {
    check_redacted(&[
        ("Passwort: Geheim123", "Geheim123"),
        (r#"passwort = "geheim und lang""#, "geheim"),
        ("mot de passe : Azerty99", "Azerty99"),
        (r#"MOT_DE_PASSE="Azerty""#, "Azerty"),
        ("contraseña: Secreta1", "Secreta1"),
        ("contrasena = 'secreta'", "secreta"),
        ("senha: minhasenha1", "minhasenha1"),
        ("wachtwoord=geheim12", "geheim12"),
        ("hasło: tajne123", "tajne123"),
        ("lösenord: hemligt1", "hemligt1"),
        ("şifre: gizli123", "gizli123"),
        ("mật khẩu: matkhau1", "matkhau1"),
        ("kata sandi: rahasia1", "rahasia1"),
        ("пароль: Секрет123", "Секрет123"),
        ("Пароль: qwerty123", "qwerty123"),
        (r#""пароль": "секретный""#, "секретный"),
        ("密码：hunter2", "hunter2"),
        ("密码是 hunter2!", "hunter2"),
        ("パスワード: himitsu99", "himitsu99"),
        ("비밀번호: bimil1234", "bimil1234"),
        ("كلمة المرور: sirri123", "sirri123"),
        ("पासवर्ड: gupt1234", "gupt1234"),
    ]);
    check_kept(&[
        "Passwort vergessen?",
        "Passwort: erforderlich",
        "mot de passe oublié",
        "contraseña: obligatoria",
        "пароль не найден",
        "пароль: неверный",
        "密码错误",
        "密码：错误",
        "パスワードを入力してください",
        "비밀번호: 필수",
    ]);
}

#[test]
fn tokens_and_headers_are_redacted() {
    check_redacted(&[
        (
            concat!("MTIzNDU2Nzg5MDEyMzQ1Njc4OQ", ".Gq7xYz.", "kT3vW8mN1bV5cX9zL2aS4dF6gH0jQwErTyUiOp"),
            "kT3vW8",
        ),
        (concat!("HRKU-", "AAq7xYzkT3vW8mN1bV5cX9zL2aS4dF6gH0jQwErTyUiOpPlKjHgFdSaZxCvBn"), "q7xYzkT3"),
        (concat!("HRKU-", "01234567-89ab-cdef-0123-456789abcdef"), "89ab-cdef"),
        (
            concat!(
                "https://discord.com/api/",
                "webhooks/123456789012345678/q7xYzkT3vW8mN1bV5cX9zL2aS4dF6gH0"
            ),
            "q7xYzkT3",
        ),
        (concat!("acme_sk_live_", "q7XyZkT3vW8mN1bV5cX9zL2a"), "q7XyZkT3"),
        ("X-Api-Key: 8f14e45fceea167a5a36", "8f14e45fceea167a5a36"),
        ("PRIVATE-TOKEN: q7xYzkT3vW8mN1bV", "q7xYzkT3vW8mN1bV"),
        ("Authorization: SSWS 00q7xYzkT3vW8mN1bV5cX9zL", "q7xYzkT3"),
        ("Authorization: 8f14e45fceea167a5a36dedd4bea2543", "8f14e45f"),
        ("https://0123456789abcdef0123456789abcdef01234567:x-oauth-basic@github.com/x/y", "0123456789abcdef"),
        ("https://api.example.com/v1?token=q7xYzkT3vW8mN1bV&pin=1", "q7xYzkT3"),
        ("PrivateKey = q7xYzkT3vW8mN1bV5cX9zL2aS4dF6gH0jQwErTyUiOo=", "q7xYzkT3"),
        ("SECRET_KEY = 'django-)x#k2$v&8(q1!m@z^7'", "k2$v&8"),
        ("API key: 8f14e45fceea167a5a36dedd4bea2543", "8f14e45f"),
        ("env:\n- name: DB_PASSWORD\n  value: swordfish\n", "swordfish"),
        ("<password>swordfish</password>", "swordfish"),
        (r#"<property name="connection.password" value="swordfish"/>"#, "swordfish"),
    ]);
    check_kept(&[
        "X-Request-Id: 0191d5c0-7c1e-7b5a-9c1f-3b0a4f6f2d11",
        "Cache-Key: build-2024-05-17",
        "https://example.com/?key=foo-bar-1&code=ABC123",
        "git@github.com:acme/shop.git and https://user@example.com/x",
        "call_Ab3dEf6hIj9kLmNoPqRsTuV toolu_01A09q90qw90lq917835lq9",
        "test_key_derivation_of_the_2nd_generation_algorithm",
        "env:\n- name: REGION\n  value: eu-west-1\n",
        "<token>hello</token>",
        r#"<input type="password" name="password" value="">"#,
        "secretName: my-app-tls-secret-2",
    ]);
}

#[test]
fn an_escape_does_not_hide_a_secret() {
    let plain = concat!("KIA", "ZQ3DXN7WKLMT5YBP");
    for escape in [r"\u0041", r"\\u0041", r"\x41", "%41"] {
        let clean = redact_text(&format!("use {escape}{plain} now"));
        assert_eq!(clean, "use [redacted:aws-access-token] now", "{escape}");
    }
    check_redacted(&[
        ("redirect=postgres%3A%2F%2Fapp%3Ahunter22%40db", "hunter22"),
        (r#"{"\u5bc6\u7801": "hunter22"}"#, "hunter22"),
        (r#"{"pass\u0077ord": "hunter22"}"#, "hunter22"),
        (r#"{"contrase\u00f1a": "hunter22"}"#, "hunter22"),
        (r"https:\/\/app:hunter22@db.example.com\/x", "hunter22"),
    ]);
    check_kept(&[
        r"C:\Users\joe\x41 and 100%25 done",
        r#"{"text": "caf\u00e9 \u2014 \ud83d\ude00"}"#,
        "https://example.com/a%20b?next=%2Fhome%3Fx%3D1",
    ]);
}
