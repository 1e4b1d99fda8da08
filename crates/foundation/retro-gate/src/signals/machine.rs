//! Patterns of commands, addresses that data is sent to, active markup, and credentials.

use super::signal::{Signal, hint, sure};
use crate::folded::View::{Plain, Words};
use crate::reason::Code::{ActiveMarkup, CommandToRun, Exfiltrates, HoldsSecret, WeakensSecurity};

pub(super) const SIGNALS: &[Signal] = &[
    hint(
        CommandToRun,
        Plain,
        r"\bcurl\s+[^\n]{0,160}\$\{?(?:github_token|aws_[a-z_]+|[a-z_]*(?:token|secret|password|api_key))",
    ),
    // -- commands
    sure(
        CommandToRun,
        Plain,
        r"\b(?:curl|wget|iwr|invoke-webrequest|fetch)\b[^\n|]{0,300}\|\s*(?:sudo\s+)?(?:env\s+)?(?:ba|z|da|k|fi)?(?:sh|python3?|perl|node|ruby|iex|powershell)\b",
    ),
    sure(
        CommandToRun,
        Plain,
        r"\b(?:ba|z|da)?sh\s+(?:-c\s+)?['\x22]?[<$]\(\s*(?:curl|wget)|\biex\s*\(|\bsource\s+<\(\s*curl",
    ),
    sure(
        CommandToRun,
        Plain,
        r"\brm\s+-(?:rf|fr|r\s+-f)\s+(?:--no-preserve-root\s+)?['\x22]?(?:/|~|\$\{?home\}?|\*)(?:['\x22*\s;]|$)",
    ),
    sure(
        CommandToRun,
        Plain,
        r"/dev/tcp/|\bnc\s+(?:-\w+\s+)*-e\b|\bmkfifo\b[^\n]{0,60}\bnc\b|:\(\)\s*\{\s*:\s*\|\s*:|\bbash\s+-i\s*>&|os\.dup2\(|['\x22]/bin/(?:ba)?sh['\x22],\s*\[?['\x22]-i",
    ),
    sure(
        CommandToRun,
        Plain,
        r"\bbase64\s+(?:-d|--decode|-di)\b[^\n]{0,40}\|\s*(?:ba|z)?sh|\beval\s*\(?\s*(?:atob|base64|\$\(\s*(?:curl|echo|base64))|exec\(\s*(?:base64|open|requests|urllib|__import__|compile)",
    ),
    sure(
        CommandToRun,
        Plain,
        r"\b(?:cat|print|read|send|upload|copy|cp|scp|tar|zip|curl|include|paste|show|dump|commit|open)\b[^\n]{0,60}(?:\.ssh/|\bid_rsa|\.aws/credentials|/etc/(?:passwd|shadow)|\.netrc|\.kube/config|\.npmrc|\.git-credentials)",
    ),
    sure(
        CommandToRun,
        Plain,
        r"\b(?:printenv|env|set)\s*\|\s*(?:curl|nc|base64|mail)|\bcurl\b[^\n]{0,120}(?:\$\(\s*(?:env|printenv|cat|whoami|base64)|-d\s*@|--data[a-z-]*[ =]@)",
    ),
    sure(
        CommandToRun,
        Plain,
        r">>?\s*(?:~|\$home|/root)/\.(?:bashrc|zshrc|profile|ssh/authorized_keys)|\bcrontab\s+-\s*<?|\bgit\s+(?:remote\s+(?:add|set-url)|push)\b[^\n]{0,80}https?://",
    ),
    hint(
        CommandToRun,
        Plain,
        r"\bos\.system\(|\bsubprocess\.|socket\.socket\(|bluetoothsocket|requests\.(?:get|post|put)\(|urllib\.request|urlretrieve\(|paramiko|pynput|pyautogui|smtplib|sounddevice|ftplib|keyboard\.|shutil\.rmtree\(|os\.(?:remove|unlink|environ)|while true:|usb\.core|\bwebbrowser\b|win32|ctypes|\bcv2\b|pyperclip|import\s+(?:socket|os|subprocess|requests|bluetooth|scapy|nmap|shutil|psutil|winreg|telnetlib)\b",
    ),
    hint(
        CommandToRun,
        Plain,
        r"\b(?:sudo|chmod\s+(?:777|\+x)|wget|curl\s+(?:-|http)|eval\(|exec\(|nohup|powershell|base64\s+-d|printenv|--no-verify|--force\b|--privileged|npm\s+(?:install|i)\s+[a-z@]|pip3?\s+install\s+[a-z]|npx\s+[a-z@]|--index-url|--registry)",
    ),
    // -- addresses
    sure(
        Exfiltrates,
        Plain,
        r"!\[[^\]\n]{0,100}\]\(\s*https?://[^)\s]{1,300}[?&][a-z0-9_]{1,30}=[^)\n]{0,20}(?:\[|\{|<|\$|%7b)",
    ),
    sure(
        Exfiltrates,
        Plain,
        r"\[(?:query|data|secret|token|payload|password|content|answer)\]|https?://[^\s)]{1,200}=(?:\{|\[|<|\$\{?)(?:query|data|secret|token|password|content|answer|base64|payload|history|context|message|chat)",
    ),
    sure(
        Exfiltrates,
        Plain,
        r"https?://[^\s)/]{1,100}/?[^\s)]{0,200}[?&](?:data|d|q|leak|exfil|secret|token|env|payload)=(?:[a-z0-9+/_-]{40,}|\$\()",
    ),
    sure(
        Exfiltrates,
        Plain,
        r"https?://(?:[a-z0-9-]+\.)*(?:webhook\.site|requestbin\.[a-z]+|ngrok\.(?:io|app)|ngrok-free\.app|burpcollaborator\.net|oastify\.com|interact\.sh|pipedream\.net|beeceptor\.com|evil\.[a-z]+|attacker\.[a-z]+)|https?://(?:attacker|evil|malicious|target[_-]?(?:server|service|url)|hacker)\b",
    ),
    hint(
        Exfiltrates,
        Plain,
        r"https?://\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|https?://(?:bit\.ly|tinyurl\.com|t\.co|goo\.gl|is\.gd|pastebin\.com|transfer\.sh|0x0\.st|gist\.githubusercontent\.com)/|https?://(?:server\.url|example\.(?:com|org)|remote\.example|[a-z.-]*\bxyz\.com|abc\.xyz)",
    ),
    // -- markup
    sure(
        ActiveMarkup,
        Plain,
        r"<[a-z][a-z0-9]*[\s/][^>\n]{0,200}\bhref\s*=\s*['\x22]?\s*javascript:|<(?:svg|img|body|iframe|input|video|details)[\s/][^>\n]{0,200}\bon(?:load|error|click|mouseover|toggle|focus)\s*=|\]\(\s*(?:javascript|data|vbscript):",
    ),
    hint(
        ActiveMarkup,
        Plain,
        r"javascript:|<iframe\b|<script\b|<object\b|<embed\b|onerror\s*=|onload\s*=|console\.log\(['\x22]",
    ),
    hint(ActiveMarkup, Plain, r"!\[[^\]\n]{0,100}\]\(\s*https?://[^)\s]{1,300}\?[^)\s]*=|<a\s+href\s*="),
    hint(
        ActiveMarkup,
        Plain,
        r"\n{40,}|(?:style\s*=\s*['\x22][^'\x22]{0,80}(?:display\s*:\s*none|font-size\s*:\s*0|color\s*:\s*(?:white|#fff)))",
    ),
    // -- protections
    hint(
        WeakensSecurity,
        Plain,
        r"verify\s*=\s*false|--no-verify|rejectunauthorized\s*:\s*false|insecureskipverify|strictHostkeychecking[ =]no|--disable-web-security|chmod\s+777",
    ),
    // -- credentials
    sure(
        HoldsSecret,
        Plain,
        r"\b(?:akia|asia)[a-z0-9]{16}\b|\bgh[pousr]_[a-z0-9]{30,}|\bgithub_pat_[a-z0-9_]{40,}|\bglpat-[a-z0-9_-]{20,}|\bxox[abprs]-[a-z0-9-]{20,}|\bsk-(?:ant-|proj-)?[a-z0-9_-]{32,}|\bsk_live_[a-z0-9]{20,}|-----begin [a-z ]{0,30}private key-----|\beyj[a-z0-9_-]{20,}\.eyj[a-z0-9_-]{20,}\.[a-z0-9_-]{20,}",
    ),
    hint(
        HoldsSecret,
        Words,
        r"\b(?:my|our|the|your) (?:password|api key|token|secret) is [a-z]*[0-9][a-z0-9]*\b",
    ),
];
