"""The build backend: builds the program `dwell`, then lets maturin build the extension and put both into the wheel.

maturin builds either programs or an extension. The program is copied to `dwell.data/scripts`, which wheels install as `bin/dwell`: a real
executable, which starts without Python.

`DWELL_PROFILE` selects the Cargo profile (default: release).
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import maturin

HERE = pathlib.Path(__file__).resolve().parent.parent
PROFILE = os.environ.get("DWELL_PROFILE", "release")


def _build_program():
    # The library is built as well, so that the features of all crates are those of maturin's build.
    command = ["cargo", "build", "--package", "dwell-cli", "--package", "dwell-python", "--profile", PROFILE]
    command += ["--locked", "--message-format", "json-render-diagnostics"]
    try:
        built = subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        sys.exit("dwell: cargo is not installed; install Rust 1.90 or later (https://rustup.rs), then repeat the command")
    except subprocess.CalledProcessError:
        sys.exit("dwell: cargo could not build the program; its messages are above")
    messages = map(json.loads, built.stdout.splitlines())
    programs = [m["executable"] for m in messages if m.get("executable") and m["target"]["name"] == "dwell"]
    scripts = HERE / "dwell.data" / "scripts"
    scripts.mkdir(parents=True, exist_ok=True)
    shutil.copy2(programs[-1], scripts / "dwell")


def _with_profile(config_settings):
    settings = dict(config_settings or {})
    settings.setdefault("build-args", f"--profile {PROFILE} --locked")
    return settings


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _build_program()
    return maturin.build_wheel(wheel_directory, _with_profile(config_settings), metadata_directory)


get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
