#!/bin/sh
# package.sh dnf|pacman|apt NAME VERSION: makes a package of the distribution in /srv/repo. It holds what lies
# below /srv/files, provides what standard input lists, one a line, and runs /srv/files.post after it is installed.
set -eu
packager=$1 name=$2 version=$3
files=/srv/files
provides=$(cat)
mkdir -p $files /srv/repo
work=$(mktemp -d)
case $packager in
dnf)
  {
    printf 'Name: %s\nVersion: %s\nRelease: 1\nSummary: A package of a test\nLicense: MIT\nBuildArch: noarch\n' \
      "$name" "$version"
    echo "$provides" | sed -n 's/./Provides: &/p'
    printf '%%description\nA package of a test.\n%%install\ncp -a %s/. %%{buildroot}\n' $files
    if [ -e /srv/files.post ]; then
      echo %post
      cat /srv/files.post
    fi
    echo %files
    (cd $files && find . -type f | sed 's/^\.//')
  } >"$work/package.spec"
  rpmbuild --quiet -bb --define '_rpmdir /srv/repo' --define '_build_name_fmt %%{NAME}-%%{VERSION}.rpm' \
    --define "_topdir $work" "$work/package.spec"
  ;;
pacman)
  cp -a $files/. "$work"
  {
    printf 'pkgname = %s\npkgbase = %s\npkgver = %s-1\npkgdesc = A package of a test\narch = any\nsize = 0\n' \
      "$name" "$name" "$version"
    echo "$provides" | sed -n 's/./provides = &/p'
  } >"$work/.PKGINFO"
  (cd "$work" && tar --zstd -cf "/srv/repo/$name-$version-1-any.pkg.tar.zst" .PKGINFO $(ls))
  ;;
apt)
  cp -a $files/. "$work"
  mkdir "$work/DEBIAN"
  printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: a test <test@example.org>\nDescription: of a test\n' \
    "$name" "$version" >"$work/DEBIAN/control"
  if [ -e /srv/files.post ]; then
    cp /srv/files.post "$work/DEBIAN/postinst"
    chmod 755 "$work/DEBIAN/postinst"
  fi
  dpkg-deb -b --root-owner-group "$work" "/srv/repo/${name}_${version}_all.deb" >/dev/null
  ;;
esac
rm -rf "$work"
