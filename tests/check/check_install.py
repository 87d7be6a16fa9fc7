"""What `cmake --install` puts somewhere is all that a program needs: the example is built against it
through pkg-config, shared and static, a C++ program too, and one through the CMake package.

    check_install.py ROOT BUILD CMAKE GENERATOR CC
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from source import root, verdict

CXX_PROGRAM = """#include <ingot/ingot.h>
#include <cstdio>
int main() { return std::puts(ig_version()) < 0; }
"""
CMAKE_PROGRAM = """cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES C)
find_package(ingot 0.1 REQUIRED)
add_executable(shared generate.c)
target_link_libraries(shared PRIVATE ingot::ingot)
add_executable(static generate.c)
target_link_libraries(static PRIVATE ingot::ingot_static)
"""
USAGE = "usage: generate MODEL PROMPT\n"


class Failed(Exception):
    pass


def run(*command, code=0, **options):
    done = subprocess.run([str(x) for x in command], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, check=False, **options)
    if done.returncode != code:
        raise Failed(f"{' '.join(map(str, command))}: exit code {done.returncode}: "
                     f"{(done.stderr or done.stdout)[-2000:]}")
    return done


def says_usage(program, env):
    if run(program, code=2, env=env).stderr != USAGE:
        raise Failed(f"{program.name}: not the usage line")


def try_all(base, build, cmake, generator, cc, at):
    run(cmake, "--install", build, "--prefix", at / "installed")
    moved = at / "elsewhere"  # nothing may remember where it was installed
    (at / "installed").rename(moved)
    [pc] = moved.rglob("ingot.pc")
    library = pc.parent.parent
    env = os.environ | {"PKG_CONFIG_PATH": str(pc.parent), "LD_LIBRARY_PATH": str(library)}

    def flags(*options):
        return run("pkg-config", *options, "ingot", env=env).stdout.split()

    example = base / "examples/generate.c"
    run(cc, "-Wall", "-Wextra", "-Werror", example, "-o", at / "shared",
        *flags("--cflags", "--libs"))
    says_usage(at / "shared", env)
    static = [x for x in flags("--cflags", "--libs", "--static") if x != "-lingot"]
    run(cc, example, library / "libingot.a", *static, "-o", at / "static")
    says_usage(at / "static", None)
    version = run(moved / "bin/ingot", "--version").stdout
    if shutil.which("c++"):
        (at / "user.cc").write_text(CXX_PROGRAM)
        run("c++", "-Wall", "-Wextra", "-Werror", at / "user.cc", "-o", at / "user",
            *flags("--cflags", "--libs"))
        if "ingot " + run(at / "user", env=env).stdout != version:
            raise Failed("the C++ program and the command differ in their version")
    user = at / "project"
    user.mkdir()
    (user / "CMakeLists.txt").write_text(CMAKE_PROGRAM)
    shutil.copy(example, user)
    run(cmake, "-G", generator, "-S", user, "-B", user / "build", f"-DCMAKE_PREFIX_PATH={moved}",
        f"-DCMAKE_C_COMPILER={cc}")
    run(cmake, "--build", user / "build")
    for name in ("shared", "static"):
        says_usage(user / "build" / name, None)


def main():
    base, (build, cmake, generator, cc) = root(), sys.argv[2:6]
    problems = []
    with tempfile.TemporaryDirectory() as at:
        try:
            try_all(base, build, cmake, generator, cc, pathlib.Path(at))
        except Failed as why:
            problems.append(str(why))
    verdict(problems, "the installed library")


main()
