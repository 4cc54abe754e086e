"""AppWorld's environment server on a free loopback port. Runs in the engine's own environment.

    python appworld_launch.py ROOT

Prints the port as one line of JSON, then serves until its standard input ends: so it never
outlives the process that started it. The engine's own command listens on every interface, and
its clients may run code; this one listens on 127.0.0.1 only. Imports nothing of this project.
"""

import json
import os
import socket
import sys
import threading


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main(root: str) -> None:
    """Serve the tasks under ``root``/data."""
    os.environ["APPWORLD_ROOT"] = root
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import uvicorn
    from appworld import update_root

    update_root(root)
    from appworld.serve.environment import app

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)  # from now on a client waits instead of being refused
    print(json.dumps({"port": listening.getsockname()[1]}), flush=True)
    os.dup2(2, 1)  # whatever is printed from here on is for the log
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1])
