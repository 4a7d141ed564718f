"""Outgoing requests of tools: no address that is not public, whatever name, spelling or redirect leads there.

A name is resolved once, every address is checked, and the connection goes to the address that was checked, so a name that
changes its mind in between gains nothing. Each hop of a redirect passes here again. Proxies of the environment are not used:
they would resolve names for themselves.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from agents.tools.check import ToolError

MOST_BYTES = 8 * 2**20
SECONDS = 30.0
REDIRECTS = 5
HOSTS = 64
"""Hosts whose connections are kept."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class FetchRefused(ToolError):
    """The service does not go there."""


def guarded_client(*, private: bool = False, most_bytes: int = MOST_BYTES, **options: Any) -> httpx2.AsyncClient:
    """A client for URLs that somebody else wrote. `private`: the operator allows addresses of the inner network."""
    settings = {"timeout": SECONDS, "follow_redirects": True, "max_redirects": REDIRECTS, **options}
    return httpx2.AsyncClient(transport=GuardedTransport(private=private, most_bytes=most_bytes), **settings)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Connects to checked addresses only, and counts the bytes that come back."""

    def __init__(self, *, private: bool = False, most_bytes: int = MOST_BYTES) -> None:
        self._private = private
        self._most_bytes = most_bytes
        self._by_host: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One hop. Raises `FetchRefused`."""
        url = request.url
        if url.scheme not in ("http", "https") or url.userinfo:
            raise FetchRefused("only http and https URLs without a password are fetched")
        checked = await self._checked(url.host, url.port or (443 if url.scheme == "https" else 80))
        # The name stays in the Host header and in TLS; only the address is exchanged.
        request.headers["accept-encoding"] = "identity"  # what is counted is what arrives
        request.extensions = {**request.extensions, "sni_hostname": url.host}
        request.url = url.copy_with(host=str(checked))
        response = await self._transport(url.host).handle_async_request(request)
        request.url = url
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise FetchRefused("the answer is compressed though nobody asked for that")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Counted(response.stream, self._most_bytes)
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        while self._by_host:
            await self._by_host.popitem()[1].aclose()

    def _transport(self, host: str) -> httpx2.AsyncHTTPTransport:
        """One for each name: a connection with one name's certificate must not serve another name at its address."""
        if host not in self._by_host and len(self._by_host) >= HOSTS:
            raise FetchRefused("too many hosts")
        return self._by_host.setdefault(host, httpx2.AsyncHTTPTransport(trust_env=False))

    async def _checked(self, host: str, port: int) -> Address:
        addresses = await _resolved(host, port)
        refused = [address for address in addresses if not is_public(address)]
        if not addresses or (refused and not self._private):
            raise FetchRefused(f"{host[:100]} is not a public address")
        return addresses[0]


async def _resolved(host: str, port: int) -> list[Address]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise FetchRefused(f"{host[:100]} has no address") from None
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def is_public(address: Address) -> bool:
    """Whether everybody on the internet may be behind it; IPv4 inside IPv6 counts as what it is."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or _behind_nat64(address) or _teredo(address)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved


def _behind_nat64(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    inside = address in ipaddress.ip_network("64:ff9b::/96") or int(address) >> 32 == 0
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if inside else None


def _teredo(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    return address.teredo[1] if address.teredo else None


class _Counted(httpx2.AsyncByteStream):
    """A body that ends with an error when it is too long."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._most:
                raise FetchRefused(f"the answer is longer than {self._most} bytes")
            yield chunk

    async def aclose(self) -> None:
        """Close the connection's stream."""
        await self._stream.aclose()
