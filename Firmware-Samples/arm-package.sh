#!/usr/bin/env bash
# Unpacks a Debian package for 32-bit ARM into a directory, beside the system, which knows nothing of
# it: the lists of packages go there too.
#
#   arm-package.sh PACKAGE DIRECTORY
set -euo pipefail

package=$1
mkdir -p "$2/apt/state/lists/partial" "$2/apt/cache/archives/partial"
directory=$(cd "$2" && pwd)
touch "$directory/apt/status"
apt=(apt-get -qq -o "Dir::State=$directory/apt/state" -o "Dir::State::status=$directory/apt/status"
    -o "Dir::Cache=$directory/apt/cache" -o APT::Architecture=armhf -o APT::Architectures=armhf
    -o APT::Sandbox::User=)
# A mirror that is being updated makes this fail in part; the download says what is missing.
"${apt[@]}" update || true
cd "$directory/apt"
"${apt[@]}" download "$package"
dpkg-deb -x "$package"_*.deb "$directory"
rm -r "$directory/apt"
