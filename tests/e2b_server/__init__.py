"""An E2B for tests: its control plane and its envd, as far as the bot uses the SDK, over real containers.

**Nothing here was compared with the hosted service.** It was written from the source of the
SDK (2.63.0), from the published
source of E2B's servers, and from public reports; the hosted service is what `make live-e2b` is for. What is known to
differ:

* A sandbox is a container of the Docker engine, not a machine: a full pause freezes it, one of the file system ends
  and later starts it, a snapshot is an image of its files. Snapshots with memory are refused.
* E2B's firewall is transparent. Here `http_proxy` and `https_proxy` in the environment of every command lead to a
  proxy that holds to the same rules: a program that ignores them, or loses them, reaches nothing. The name that
  counts is the one the proxy is asked for, not Host or SNI. There is no DNS and no UDP at all. Without
  `private_addresses`, the sandbox's own loopback is exempt; with it, loopback by proxy is this machine's.
* Default user and folder are the image's, as in a template made from its Dockerfile; E2B's own templates have `user`
  and `/home/user`. There is no sudo, and no limit on disk space; 512 processes at most.
* What a repeated idempotency key, a snapshot of a paused sandbox, or the deletion of a snapshot in use come to is not
  documented. Here: the first sandbox while it lives, 409, and the sandboxes live on.
* Left out: terminals, watching folders, signed addresses, ranges, compression, forks, metrics, rules that add
  headers, upstream proxies, ports of the sandbox's own, volumes, building templates.
"""

from tests.e2b_server.faults import Cut, Faults, LostFiles, NoEnd, OtherId, Refuse, Slow
from tests.e2b_server.server import E2BServer

__all__ = ["Cut", "E2BServer", "Faults", "LostFiles", "NoEnd", "OtherId", "Refuse", "Slow"]
