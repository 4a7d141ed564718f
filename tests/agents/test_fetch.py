"""Outgoing requests: whatever the spelling, name or redirect, nothing leads into the inner network."""

import asyncio
import contextlib
import gzip
import ipaddress

import httpx2
import pytest

from agents.tools.fetch import FetchRefused, GuardedTransport, guarded_client, is_public

INNER = [
    "http://127.0.0.1/",
    "http://localhost/",
    "http://169.254.169.254/latest/meta-data",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[fd00::1]/",
    "http://[fe80::1]/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://127。0。0。1/",
]


@pytest.mark.parametrize("url", INNER)
async def test_inner_addresses_are_refused_in_every_spelling(url):
    async with guarded_client() as client:
        with pytest.raises((FetchRefused, httpx2.InvalidURL)):
            await client.get(url)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "http://user:secret@example.com/",
        "http:///x",
    ],
)
async def test_other_schemes_and_passwords_are_refused(url):
    async with guarded_client() as client:
        with pytest.raises((FetchRefused, httpx2.InvalidURL, httpx2.UnsupportedProtocol)):
            await client.get(url)


@pytest.mark.parametrize("url", ["http://127.0.0.1\\@example.com/", "http://example.com\\@127.0.0.1/"])
async def test_a_backslash_never_leads_inside(url):
    async with guarded_client() as client:
        with pytest.raises((FetchRefused, httpx2.InvalidURL)):
            await client.get(url)


@pytest.mark.parametrize(
    ("address", "public"), [("8.8.8.8", True), ("2606:4700::1111", True), ("::", False), ("192.0.2.1", False)]
)
def test_public_is_what_the_internet_can_reach(address, public):
    assert is_public(ipaddress.ip_address(address)) is public


@contextlib.asynccontextmanager
async def answering(text):
    """A server that sends the same bytes to everybody and counts its visitors."""
    visits = []

    async def answer(reader, writer):
        visits.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(text)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], visits


def reply(body, status="200 OK", *more):
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *more))
    return f"{head}\r\n{body}".encode()


class OnlyThis(GuardedTransport):
    """Lets the test's own server pass as public; everything else is checked as always."""

    def __init__(self, port):
        super().__init__()
        self._port = port

    async def _checked(self, host, port):
        if port == self._port:
            return ipaddress.ip_address("127.0.0.1")
        return await super()._checked(host, port)


async def test_a_redirect_into_the_inner_network_is_not_followed():
    async with answering(reply("", "302 Found", "Location: http://127.0.0.1:1/secret")) as (port, visits):
        async with httpx2.AsyncClient(transport=OnlyThis(port), follow_redirects=True) as client:
            with pytest.raises(FetchRefused):
                await client.get(f"http://example.com:{port}/")
        assert len(visits) == 1


async def test_the_name_goes_into_the_host_header_and_the_checked_address_is_dialled():
    async with answering(reply("hello")) as (port, visits):
        async with httpx2.AsyncClient(transport=OnlyThis(port)) as client:
            answer = await client.get(f"http://no-such-name.invalid:{port}/x")
        assert answer.text == "hello"
        assert f"Host: no-such-name.invalid:{port}".lower() in visits[0].decode().lower()
        assert answer.request.url.host == "no-such-name.invalid"


async def test_an_answer_that_is_too_long_is_cut_off():
    async with answering(reply("x" * 5000)) as (port, _):
        async with guarded_client(private=True, most_bytes=1000) as client:
            with pytest.raises(FetchRefused, match="longer than 1000 bytes"):
                await client.get(f"http://127.0.0.1:{port}/")
        async with guarded_client(private=True, most_bytes=5000) as client:
            assert len((await client.get(f"http://127.0.0.1:{port}/")).content) == 5000


async def test_a_compressed_answer_can_not_grow_in_memory():
    bomb = gzip.compress(b"x" * 5_000_000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    async with answering(head + bomb) as (port, _), guarded_client(private=True, most_bytes=100_000) as client:
        with pytest.raises(FetchRefused, match="compressed"):
            await client.get(f"http://127.0.0.1:{port}/")


async def test_proxies_of_the_environment_are_not_used(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with answering(reply("direct")) as (port, _), guarded_client(private=True) as client:
        assert (await client.get(f"http://127.0.0.1:{port}/")).text == "direct"
