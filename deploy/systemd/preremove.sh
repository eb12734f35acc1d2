#!/bin/sh
# dpkg calls this with "remove" or "upgrade", rpm with how many versions stay.
case $1 in remove | 0) ;; *) exit 0 ;; esac
[ ! -d /run/systemd/system ] || systemctl disable --now ringfold-record.service || :
