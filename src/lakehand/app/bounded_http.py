# SPDX-License-Identifier: Apache-2.0
"""HTTP with a bound on the head of a request: the server's parser alone would collect a header for ever."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD = 512 * 1024  # bytes; what a body has is bounded by those who read it
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedHttp(HttpToolsProtocol):
    _is_head = True
    _head_size = 0

    def data_received(self, data: bytes) -> None:
        if self._is_head:
            self._head_size += len(data)
            if self._head_size > LONGEST_HEAD:
                self.transport.write(TOO_LARGE)
                self.transport.close()
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._is_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_head, self._head_size = True, 0
        super().on_message_complete()
