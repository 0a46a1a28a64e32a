"""Only public hosts are public, however they are written."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.llm.upstream.public_addresses import is_public, may_be_public, parse_literal

INSIDE = [
    *("127.0.0.1", "127.255.255.254", "0.1.2.3", "10.0.0.1", "172.31.0.1", "192.168.1.1"),
    *("169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    *("224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1"),
    *("2001:db8::1", "2001::1", "100::1", "64:ff9b:1::1", "::7f00:1", "::ffff:0:127.0.0.1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe"),
    *("2002:7f00:1::", "2002:a9fe:a9fe::1"),
]


@pytest.mark.parametrize("address", INSIDE)
def test_what_is_inside_is_not_public(address):
    assert not is_public(ip_address(address))
    assert not may_be_public(address)
    assert not may_be_public(f"[{address}]")


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "100.63.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8",
                "64:ff9b::8.8.8.8", "2002:808:808::1"]
)  # fmt: skip
def test_what_is_on_the_internet_is_public(address):
    assert is_public(ip_address(address))
    assert may_be_public(address)


@pytest.mark.parametrize(
    "host",
    [
        *("0x7f.1", "0x7f000001", "2130706433", "127.1", "127.0.1", "0177.0.0.1", "010.0.0.1"),
        *("127.0.0.1.", "0", "0.", "0x", "1.1.1.256", "1.2.3.4.5", "8.8", "host.0x1", "8.8.8.8."),
        *("localhost", "LOCALHOST", "localhost.", "a.localhost", "printer.local", ""),
        *("metadata.google.internal", "metadata.google.internal.", "router.home.arpa", "."),
    ],
)
def test_odd_spellings_and_private_names_are_never_public(host):
    assert not may_be_public(host)


@pytest.mark.parametrize("host", ["api.openai.com", "api.openai.com.", "internal.example", "x-1"])
def test_a_name_may_be_public(host):
    assert may_be_public(host)


@given(st.ip_addresses())
def test_every_address_is_judged_as_it_is_written(address):
    assert parse_literal(str(address)) == address
    assert may_be_public(str(address)) == is_public(address)


@given(st.ip_addresses(v=4))
def test_an_address_within_another_is_judged_as_itself(inner):
    number = int(inner)
    mapped = IPv6Address((0xFFFF << 32) | number)
    translated = IPv6Address((0x64FF9B << 96) | number)
    sixtofour = IPv6Address((0x2002 << 112) | (number << 80))
    for outer in (mapped, translated, sixtofour):
        assert is_public(outer) == is_public(inner)
    assert is_public(IPv4Address(number)) == is_public(inner)
