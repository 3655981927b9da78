"""A Postgres of our own for one test session: a cluster in a temporary folder, reached by a socket there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def cluster() -> Iterator[str]:
    """Yields the URL of an empty database; fails where the server's programs are missing."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = Path(shutil.which("initdb") or (programs[-1] if programs else ""))
    assert initdb.is_file(), "Postgres' server programs are missing: run scripts/postgres-up"
    folder = Path(tempfile.mkdtemp(prefix="coder-pg-"))
    # The server refuses to run as root.
    runner = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    if runner:
        shutil.chown(folder, "postgres", "postgres")
    log = folder / "log"
    data = folder / "data"

    def run(program: str, *args: str) -> None:
        argv = [*runner, str(initdb.parent / program), *args]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        run("initdb", "-D", str(data), "-U", "coder", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "-D", str(data), "-l", str(log), "-w", "-o", options, "start")
        yield f"postgresql+psycopg://coder@/postgres?host={folder}"
        run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
