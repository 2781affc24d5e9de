"""Runs a program on a terminal of its own and types into it: terminal.py TYPED PROGRAM ARGUMENT …

TYPED is a JSON list; each text is typed, with the key Enter, once the program has asked: what it prints then ends with ": ".
"^C", "^D", "SIGTERM" and "SIGHUP" are these. Prints JSON: what the terminal showed, the exit code or signal, and whether the terminal
echoes afterwards.
"""
import fcntl
import json
import os
import pty
import select
import signal
import sys
import termios
import time

PATIENCE_S = 60


def main():
    typed, program = json.loads(sys.argv[1]), sys.argv[2:]
    terminal, slave = pty.openpty()
    child = os.fork()
    if child == 0:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for number in (0, 1, 2):
            os.dup2(slave, number)
        os.execvp(program[0], program)
    shown, asked, deadline, status = b"", 0, time.time() + PATIENCE_S, None
    while status is None and time.time() < deadline:
        if select.select([terminal], [], [], 0.05)[0]:
            shown += os.read(terminal, 65536)
        if typed and shown.count(b": ", asked) and shown.endswith(b": "):
            asked, text = len(shown), typed.pop(0)
            if text in ("SIGTERM", "SIGHUP"):
                os.kill(child, signal.Signals[text])
            else:
                os.write(terminal, {"^C": b"\x03", "^D": b"\x04"}.get(text, text.encode() + b"\r"))
        ended, code = os.waitpid(child, os.WNOHANG)
        if ended:
            status = code
    while select.select([terminal], [], [], 0.1)[0]:
        shown += os.read(terminal, 65536)
    if status is None:
        os.kill(child, signal.SIGKILL)
        raise SystemExit(f"did not end: {shown!r}")
    echoes = bool(termios.tcgetattr(slave)[3] & termios.ECHO)
    print(json.dumps({"shown": shown.decode(errors="replace"), "code": os.waitstatus_to_exitcode(status), "echoes": echoes}))


main()
