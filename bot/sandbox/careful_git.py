"""The environment in which git runs in a sandbox: what a repository or a machine configures starts no program there,
and leads no request elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import urlsplit

CONFIG: Mapping[str, str] = {
    # Given with the command, these outrank the repository's own; what is not listed has no program behind it in the
    # few commands we use (no diff, no push, no merge).
    "protocol.allow": "never",
    "protocol.https.allow": "always",
    "protocol.http.allow": "always",
    # A header of ours goes to the one address it was made for. Git would take it along on a redirect.
    "http.followRedirects": "false",
    "http.sslVerify": "true",
    "http.saveCookies": "false",
    "credential.helper": "",
    "core.askPass": "",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.alternateRefsCommand": "true",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.pager": "cat",
    "core.editor": "false",
    "core.autocrlf": "false",
    "core.symlinks": "true",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "filter.lfs.clean": "",
    "filter.lfs.smudge": "",
    "filter.lfs.process": "",
    "filter.lfs.required": "false",
    "transfer.fsckObjects": "true",
    # What a commit says about submodules is nothing to us, and old histories are full of small sins.
    **{
        f"fetch.fsck.{name}": "ignore"
        for name in ("gitmodulesUrl", "gitmodulesPath", "gitmodulesName", "gitmodulesUpdate", "gitmodulesParse")
    },
    **{f"fetch.fsck.{name}": "ignore" for name in ("zeroPaddedFilemode", "badTimezone", "missingSpaceBeforeDate")},
    "gc.auto": "0",
    "maintenance.auto": "false",
    "init.defaultBranch": "main",
    "advice.detachedHead": "false",
}


def _configured(more: Mapping[str, str]) -> dict[str, str]:
    """Configuration as git takes it from its environment, where no other process's command line shows it."""
    found = {"GIT_CONFIG_COUNT": str(len(CONFIG) + len(more))}
    for number, (key, value) in enumerate({**CONFIG, **more}.items()):
        found[f"GIT_CONFIG_KEY_{number}"] = key
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found


GIT_ENV: Mapping[str, str] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_TEMPLATE_DIR": "",
    "GIT_NO_LAZY_FETCH": "1",
    # What a command may have left in its home folder, or may have put in an object's place, is nothing to go by.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "LC_ALL": "C",
    **_configured({}),
}
"""For every git of ours in a sandbox."""

FROM_A_FILE: Mapping[str, str] = {**GIT_ENV, **_configured({"protocol.file.allow": "always"})}
"""For taking a bundle in that we have put there."""

MACHINE = (
    *("PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "CURL_CA_BUNDLE"),
    *("http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"),
)
"""What an image may say to a git that holds a token: where programs and certificate authorities are, and a way out:
it leads to the one host that is open meanwhile, or nowhere."""


def fetching(url: str, token: str) -> dict[str, str]:
    """The environment of a fetch from that address: the token is a header for its origin alone."""
    parts = urlsplit(url)
    basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    header = {f"http.{parts.scheme}://{parts.netloc}/.extraHeader": f"Authorization: Basic {basic}"}
    return {**GIT_ENV, **_configured(header)}
