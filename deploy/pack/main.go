// Command pack makes Debian and RPM packages of each directory that scripts/release.sh puts into an
// archive, and one container image of all, as an OCI archive. It needs neither root nor Docker.
//
//	pack VERSION OUTPUT DIRECTORY...
//
// A directory's name ends with its architecture. The same files give the same bytes: times are
// SOURCE_DATE_EPOCH.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// release is what all packages and the image have in common.
type release struct {
	version string // v0.1.0
	time    time.Time
}

// file is one file to install.
type file struct {
	source, path string
	mode         fs.FileMode
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("pack: ")
	flag.Parse()
	if flag.NArg() < 3 {
		log.Fatal("usage: pack VERSION OUTPUT DIRECTORY...")
	}
	if err := run(flag.Arg(0), flag.Arg(1), flag.Args()[2:], os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		log.Fatal(err)
	}
}

func run(version, output string, directories []string, epoch string) error {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r := release{version: version, time: time.Unix(seconds, 0).UTC()}
	image := newImage(r)
	for _, directory := range directories {
		arch := directory[strings.LastIndex(directory, "-")+1:]
		docs, err := documents(directory)
		if err != nil {
			return err
		}
		program := filepath.Join(directory, "ringfold")
		if err := r.packages(output, arch, directory, append(docs, file{program, "/usr/bin/ringfold", 0o755})); err != nil {
			return fmt.Errorf("%s: %w", directory, err)
		}
		if err := image.add(arch, append(docs, file{program, "/ringfold", 0o755})); err != nil {
			return fmt.Errorf("%s: %w", directory, err)
		}
	}
	return create(filepath.Join(output, "ringfold-"+version+".oci.tar"), image.write)
}

// documents are what comes with every copy of the program, licenses first of all, in lexical order.
func documents(directory string) (files []file, err error) {
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "LICENSES", "SECURITY.md"} {
		err := filepath.WalkDir(filepath.Join(directory, name), func(source string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			to, err := filepath.Rel(directory, source)
			if to == "LICENSE" {
				to = "copyright" // Debian's name for it
			}
			files = append(files, file{source, path.Join("/usr/share/doc/ringfold", to), 0o644})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// create writes a file, which is whole or not there.
func create(name string, write func(*os.File) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := cmp.Or(write(f), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", name, err), os.Remove(name))
	}
	return nil
}
