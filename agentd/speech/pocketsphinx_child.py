"""The offline speech recognizer: raw audio on its standard input, the text on its output.

It runs in a process of its own, so that a long recording keeps nobody waiting, and can be
ended. Not imported by the daemon.
"""

import sys


def main() -> int:
    """Transcribe all input; return 2 when the extra ``speech`` is not installed."""
    try:
        from pocketsphinx import Decoder  # noqa: PLC0415 - an extra, whose absence is reported
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    decoder = Decoder(samprate=16_000)
    decoder.start_utt()
    decoder.process_raw(sys.stdin.buffer.read(), full_utt=True)
    decoder.end_utt()
    hypothesis = decoder.hyp()
    sys.stdout.write(hypothesis.hypstr if hypothesis else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
