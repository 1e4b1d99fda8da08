//! Classifies IP addresses: bodies may be fetched only from public ones.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 blocks that are not public, with their prefix lengths, from RFC 6890 and the IANA registry.
const NON_PUBLIC_V4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),        // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),       // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),    // shared by carriers; a cloud's metadata at 100.100.100.200
    (Ipv4Addr::new(127, 0, 0, 0), 8),      // loopback
    (Ipv4Addr::new(168, 63, 129, 16), 32), // a public address, but used for internal services of a cloud
    (Ipv4Addr::new(169, 254, 0, 0), 16),   // link-local; metadata at 169.254.169.254
    (Ipv4Addr::new(172, 16, 0, 0), 12),    // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),     // protocol assignments; metadata at 192.0.0.192
    (Ipv4Addr::new(192, 0, 2, 0), 24),     // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),   // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),   // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),    // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24),  // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),   // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),      // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),      // reserved, broadcast
];

/// IPv6 blocks within 2000::/3 that are not public, or that embed an IPv4 address, which would need a check
/// of its own. Nothing outside 2000::/3 is public: loopback, mapped and translated IPv4, unique local,
/// link-local, multicast.
const NON_PUBLIC_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments; Teredo
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];
const GLOBAL_UNICAST_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Returns `true` if an address is on the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NON_PUBLIC_V4.iter().any(|block| is_in_v4_block(address, *block)),
        IpAddr::V6(address) => {
            is_in_v6_block(address, GLOBAL_UNICAST_V6)
                && !NON_PUBLIC_V6.iter().any(|block| is_in_v6_block(address, *block))
        }
    }
}

fn is_in_v4_block(address: Ipv4Addr, (block, length): (Ipv4Addr, u32)) -> bool {
    // A length of 0 would overflow the shift; no block has it.
    (address.to_bits() ^ block.to_bits()) >> (32 - length) == 0
}

fn is_in_v6_block(address: Ipv6Addr, (block, length): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ block.to_bits()) >> (128 - length) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(addresses: &[&str], public: bool) {
        for address in addresses {
            assert_eq!(is_public(address.parse().expect(address)), public, "{address}");
        }
    }

    #[test]
    fn public_addresses_reach_up_to_the_reserved_blocks() {
        check(
            &["1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"],
            true,
        );
        check(
            &["128.0.0.0", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0"],
            true,
        );
        check(&["192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255"], true);
        check(&["2606:4700:4700::1111", "2001:200::1", "2003::1", "3ffe:ffff::1", "3fff:1000::1"], true);
    }

    #[test]
    fn reserved_ipv4_addresses_are_not_public() {
        check(&["0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.255", "10.0.0.0", "10.255.255.255"], false);
        check(
            &[
                "172.16.0.0",
                "172.31.255.255",
                "192.168.0.1",
                "100.64.0.0",
                "100.100.100.200",
                "100.127.255.255",
            ],
            false,
        );
        check(
            &[
                "169.254.0.0",
                "169.254.169.254",
                "168.63.129.16",
                "192.0.0.192",
                "198.18.0.1",
                "198.19.255.255",
            ],
            false,
        );
        check(
            &["192.0.2.1", "198.51.100.1", "203.0.113.1", "192.88.99.1", "224.0.0.1", "239.255.255.255"],
            false,
        );
        check(&["240.0.0.1", "255.255.255.255"], false);
    }

    #[test]
    fn local_and_ipv4_embedding_ipv6_addresses_are_not_public() {
        check(
            &[
                "::",
                "::1",
                "::127.0.0.1",
                "::ffff:127.0.0.1",
                "::ffff:8.8.8.8",
                "64:ff9b::7f00:1",
                "64:ff9b:1::1",
            ],
            false,
        );
        check(
            &["2002:7f00:1::", "2001::7f00:1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1"],
            false,
        );
        check(&["2001:db8::1", "3fff::1", "100::1", "4000::1"], false);
    }

    proptest! {
        #[test]
        fn what_the_standard_library_calls_local_is_never_public(bits in any::<u32>()) {
            let address = Ipv4Addr::from_bits(bits);
            let local = address.is_loopback() || address.is_private() || address.is_link_local()
                || address.is_multicast() || address.is_broadcast() || address.is_unspecified() || address.is_documentation();
            prop_assert!(!(local && is_public(address.into())));
            prop_assert!(!is_public(address.to_ipv6_mapped().into()) && !is_public(address.to_ipv6_compatible().into()));
        }
    }
}
