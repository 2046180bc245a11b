"""Connections that wait for a request: uvicorn alone lets half a header wait for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from asyncio import TimerHandle

__all__ = ["OPTIONS", "HeaderLimit"]

HEADER_SECONDS = 20
"""From the first byte of a header, or from the connection, to the end of the header."""


class HeaderLimit(H11Protocol):
    """A connection that is closed where the header of a request does not come to its end in time.

    Bytes that trickle in do not extend the time. A request whose header is complete has no limit
    here: `limited` of the guard watches its body.
    """

    ends: TimerHandle | None = None

    @property
    def between_requests(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first header."""
        super().connection_made(transport)
        self.wait()

    def data_received(self, data: bytes) -> None:
        """Wait on where the header is not complete."""
        super().data_received(data)
        if self.between_requests:
            self.wait()
        else:
            self.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self.stop()
        super().connection_lost(exc)

    def wait(self) -> None:
        """Let the time run, where it does not run already."""
        if self.ends is None:
            self.ends = self.loop.call_later(HEADER_SECONDS, self.give_up)

    def stop(self) -> None:
        """Let the time run no longer."""
        if self.ends is not None:
            self.ends.cancel()
            self.ends = None

    def give_up(self) -> None:
        """Close the connection of whoever did not finish."""
        self.ends = None
        if self.between_requests:
            self.transport.close()


OPTIONS: dict[str, Any] = {
    "http": HeaderLimit,
    "limit_concurrency": 512,
    "log_level": "warning",
    "server_header": False,
}
"""How uvicorn serves the application."""
