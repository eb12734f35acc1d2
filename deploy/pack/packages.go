package main

import (
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// ours is the directory of what packages have besides an archive's contents, from where pack runs.
var ours = "systemd"

// packages makes the Debian and the RPM package of one architecture.
func (r release) packages(output, arch, directory string, all []file) error {
	pages, err := filepath.Glob(filepath.Join(directory, "man/*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		all = append(all, file{page, "/usr/share/man/man1/" + filepath.Base(page), 0o644})
	}
	completion := filepath.Join(directory, "completion")
	all = append(all,
		file{completion + "/bash", "/usr/share/bash-completion/completions/ringfold", 0o644},
		file{completion + "/zsh", "/usr/share/zsh/site-functions/_ringfold", 0o644},
		file{completion + "/fish", "/usr/share/fish/vendor_completions.d/ringfold.fish", 0o644},
		file{ours + "/ringfold-record.service", "/usr/lib/systemd/system/ringfold-record.service", 0o644},
	)
	for _, p := range []nfpm.Packager{deb.Default, rpm.DefaultRPM} {
		info := r.info(arch, all) // anew: packagers change it
		err := create(filepath.Join(output, p.ConventionalFileName(info)), func(f *os.File) error { return p.Package(info, f) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (r release) info(arch string, all []file) *nfpm.Info {
	info := &nfpm.Info{
		Name:        "ringfold",
		Version:     r.version,
		Arch:        arch,
		MTime:       r.time,
		Section:     "utils",
		Priority:    "optional",
		Maintainer:  "The ringfold maintainers",
		Homepage:    "https://github.com/ringfold/ringfold",
		License:     "BSD-2-Clause",
		Description: "shows, records and publishes events of BPF programs\nIt reads perf event arrays and ring buffers in the order of time, and counts what was lost.",
	}
	info.RPM.BuildHost = "localhost" // not this machine's name: packages are the same everywhere
	info.Scripts = nfpm.Scripts{PostInstall: ours + "/postinstall.sh", PreRemove: ours + "/preremove.sh"}
	add := func(f file, kind string) {
		info.Contents = append(info.Contents, &files.Content{
			Source: f.source, Destination: f.path, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.time},
		})
	}
	for _, f := range all {
		add(f, files.TypeFile)
	}
	add(file{path: "/etc/ringfold", mode: 0o755}, files.TypeDir)
	// For root alone: it may hold a password. systemd reads it as root.
	add(file{ours + "/record.env", "/etc/ringfold/record.env", 0o600}, files.TypeConfigNoReplace)
	return nfpm.WithDefaults(info)
}
