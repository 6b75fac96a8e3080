"""Certificates for servers on loopback, signed by an authority of the test's own."""

import subprocess
from pathlib import Path


class OpensslMissing(Exception):
    """There is no command `openssl` on this machine."""


class Certificates:
    """An authority, and a certificate for 127.0.0.1 that it has signed.

    Raises:
        OpensslMissing: They cannot be made.
    """

    def __init__(self, directory: Path) -> None:
        self.authority = directory / "ca.crt"
        self._certificate = directory / "server.crt"
        self._key = directory / "server.key"
        authority_key, request = directory / "ca.key", directory / "server.csr"
        names = directory / "names"
        names.write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
        new_key = ("-newkey", "rsa:2048", "-nodes")
        _openssl(
            *("req", "-x509", *new_key, "-keyout", authority_key, "-out", self.authority),
            *("-days", "2", "-subj", "/CN=test authority"),
        )
        _openssl(
            *("req", *new_key, "-keyout", self._key, "-out", request, "-subj", "/CN=127.0.0.1"),
        )
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.authority, "-CAkey", authority_key),
            *("-CAcreateserial", "-out", self._certificate, "-days", "2", "-extfile", names),
        )

    def settings(self, port: int) -> list[str]:
        """Lines for the configuration of a server, or a sentinel, that speaks only TLS on *port*.

        It also speaks TLS to other servers, whose certificates the authority has to have signed.
        """
        return [
            "port 0",
            f"tls-port {port}",
            f'tls-cert-file "{self._certificate}"',
            f'tls-key-file "{self._key}"',
            f'tls-ca-cert-file "{self.authority}"',
            "tls-auth-clients no",
            "tls-replication yes",
        ]


def _openssl(*arguments: object) -> None:
    command = ["openssl", *map(str, arguments)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    except FileNotFoundError as error:
        raise OpensslMissing("no command openssl to make certificates with") from error
