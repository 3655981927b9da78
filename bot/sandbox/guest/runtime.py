"""Copies this image's Python and git, with all they load, to a folder from which any image with `sh` can run them.

usage: runtime.py FOLDER MOUNTED_AT

Run as root in the bot's own image. They are started by their own loader with their own libraries, so that it does not
matter what libraries, or what C library, the other image has.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig

LENT = ("git", "git-remote-http", "git-remote-https")
SCRIPT = """#!/bin/sh
{settings}exec {at}/ld.so --library-path {at}/lib --argv0 {name} {at}/real/{program} "$@"
"""
GIT_SETTINGS = """GIT_EXEC_PATH={at}/git-core
: "${{GIT_SSL_CAINFO:={at}/certificates.crt}}"
export GIT_EXEC_PATH GIT_SSL_CAINFO
"""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def libraries(program: str) -> set[str]:
    """The files that the loader would load for a program or a library; empty for what needs none."""
    said = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
    words = [word for line in said.splitlines() for word in line.split()]
    return {word for word in words if word.startswith("/") and os.path.isfile(word)}


def script(path: str, at: str, name: str, program: str, settings: str = "") -> None:
    with open(path, "w") as file:
        file.write(SCRIPT.format(at=at, name=name, program=program, settings=settings.format(at=at)))
    os.chmod(path, 0o755)  # noqa: S103 - a program


def build(to: str, at: str) -> None:
    for folder in ("bin", "lib", "real", "git-core"):
        os.makedirs(os.path.join(to, folder), exist_ok=True)
    stdlib = sysconfig.get_path("stdlib")
    target = os.path.join(to, "lib", os.path.basename(stdlib))
    leave = shutil.ignore_patterns("__pycache__", "test", "idlelib", "tkinter", "lib2to3", "dist-packages")
    shutil.copytree(stdlib, target, dirs_exist_ok=True, ignore=leave)
    git_core = subprocess.run(["git", "--exec-path"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    programs = {"python3": os.path.realpath(sys.executable)}
    programs.update((name, os.path.realpath(os.path.join(git_core, name))) for name in LENT)
    dynamic = os.path.join(stdlib, "lib-dynload")
    needed = set()
    for program in (*programs.values(), *(os.path.join(dynamic, name) for name in os.listdir(dynamic))):
        needed |= libraries(program)
    for library in needed:
        name = "ld.so" if os.path.basename(library).startswith("ld-") else "lib/" + os.path.basename(library)
        shutil.copyfile(library, os.path.join(to, name))
    os.chmod(os.path.join(to, "ld.so"), 0o755)  # noqa: S103
    for name, program in programs.items():
        shutil.copy(program, os.path.join(to, "real", name))
        if name != "python3":
            script(os.path.join(to, "git-core", name), at, name, name, GIT_SETTINGS)
    script(os.path.join(to, "bin", "python3"), at, at + "/bin/python3", "python3")
    script(os.path.join(to, "bin", "git"), at, "git", "git", GIT_SETTINGS)
    shutil.copyfile(CERTIFICATES, os.path.join(to, "certificates.crt"))


def main(to: str, at: str) -> None:
    with open(os.path.join(to, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = os.path.join(to, "complete")
        if not os.path.exists(complete):
            build(to, at)
            with open(complete, "w"):
                pass


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
