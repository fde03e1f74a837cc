"""Arguments of the interpreter that runs a built Python program.

`-S` saves a quarter of the interpreter's start, but skips `site`, which defines `exit` and `quit`: the start code
defines them. A zygote has one more argument, a library. The call that loads it returns in a fork for each test, with
SystemError, and never in the zygote itself (see `zygote`).

Programs convert integers of any number of digits, as in Python before 3.11. Their limits bound the time and memory.
"""

_START = """\
def _start():
    import _sitebuiltins, builtins, marshal, sys
    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    if len(sys.argv) > 2:
        import _imp
        try:
            _imp.create_dynamic(type(sys.implementation)(name="zygote", origin=sys.orig_argv.pop()))
        except SystemError:
            pass
        if sys.path_importer_cache.pop("/", None):  # Python 3.13 lists the folder where it starts
            sys.meta_path[-1].find_spec("_", [""])
    with open(sys.argv[1], "rb") as file:
        code = marshal.load(file)
    sys.argv = ["main.py"]
    del globals()["_start"]
    globals().update(__file__="main.py", __builtins__=builtins)
    return code
exec(_start())
"""
LONG_INTEGERS = ("-X", "int_max_str_digits=0")
PYTHON_START = (*LONG_INTEGERS, "-sS", "-c", _START, "main.bin")
