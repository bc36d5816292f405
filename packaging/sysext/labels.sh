# SELinux's labels of what an image holds, as mksquashfs reads them, with the names that Fedora's policy has. The directories
# of an extension are laid over those of /usr, and its labels with them: without any, nothing on the host could use its own
# /usr any more. Argument: the image's tree.
set -e
cd "$1"
paths=$(find usr)
echo "$paths" | LC_ALL=C sort | while read -r path; do
  case $path in
    usr/bin | usr/bin/*) type=bin_t ;;
    usr/lib/systemd/system | usr/lib/systemd/system/*) type=systemd_unit_file_t ;;
    usr/lib | usr/lib/*) type=lib_t ;;
    usr/share/man | usr/share/man/*) type=man_t ;;
    *) type=usr_t ;;
  esac
  echo "$path x security.selinux=system_u:object_r:$type:s0"
done
