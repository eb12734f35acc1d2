package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// repository is where the image is published.
const repository = "ghcr.io/ringfold/ringfold"

// image is an OCI image layout: blobs by their digests, and an index that names one manifest per
// architecture. https://github.com/opencontainers/image-spec
type image struct {
	release
	blobs     map[string][]byte
	manifests []descriptor
}

// descriptor refers to a blob. Its fields, and those below, are the specification's.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type config struct {
	platform
	Created time.Time `json:"created"`
	Config  struct {
		Entrypoint []string
		Labels     map[string]string
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

const (
	mediaType    = "application/vnd.oci.image."
	typeIndex    = mediaType + "index.v1+json"
	typeManifest = mediaType + "manifest.v1+json"
)

func newImage(r release) *image { return &image{release: r, blobs: map[string][]byte{}} }

// add adds the image of one architecture: its files are the only layer.
func (i *image) add(arch string, files []file) error {
	var layer, zipped bytes.Buffer
	if err := i.layer(&layer, files); err != nil {
		return err
	}
	z := gzip.NewWriter(&zipped) // without a name and a time
	if _, err := z.Write(layer.Bytes()); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	p := platform{Architecture: arch, OS: "linux"}
	c := config{platform: p, Created: i.time}
	c.Config.Entrypoint = []string{"/ringfold"}
	c.Config.Labels = map[string]string{
		"org.opencontainers.image.licenses": "BSD-2-Clause",
		"org.opencontainers.image.source":   "https://github.com/ringfold/ringfold",
		"org.opencontainers.image.title":    "ringfold",
		"org.opencontainers.image.version":  i.version,
	}
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{digest(layer.Bytes())}
	m := i.json(typeManifest, manifest{2, typeManifest,
		i.json(mediaType+"config.v1+json", c),
		[]descriptor{i.blob(mediaType+"layer.v1.tar+gzip", zipped.Bytes())},
	})
	m.Platform = &p
	i.manifests = append(i.manifests, m)
	return nil
}

// layer writes files and the directories above them.
func (i *image) layer(w io.Writer, files []file) error {
	var above []string
	for _, f := range files {
		for dir := path.Dir(f.path); dir != "/"; dir = path.Dir(dir) {
			above = append(above, dir)
		}
	}
	slices.Sort(above)
	t := tar.NewWriter(w)
	for _, dir := range slices.Compact(above) {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755, ModTime: i.time}); err != nil {
			return err
		}
	}
	for _, f := range files {
		contents, err := os.ReadFile(f.source)
		if err != nil {
			return err
		}
		if err := i.member(t, strings.TrimPrefix(f.path, "/"), int64(f.mode), contents); err != nil {
			return err
		}
	}
	return t.Close()
}

func (i *image) member(t *tar.Writer, name string, mode int64, contents []byte) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(contents)), ModTime: i.time}); err != nil {
		return err
	}
	_, err := t.Write(contents)
	return err
}

// write writes the image as a tar archive. The index of architectures is a blob itself, and the
// outermost index names that alone: tools ask which image is meant if there are several.
func (i *image) write(f *os.File) error {
	all := i.json(typeIndex, index{2, typeIndex, i.manifests})
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": repository + ":" + i.version}
	outermost, err := json.Marshal(index{2, typeIndex, []descriptor{all}})
	if err != nil {
		return err
	}
	members := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`), "index.json": outermost}
	for id, blob := range i.blobs {
		members["blobs/"+strings.Replace(id, ":", "/", 1)] = blob
	}
	t := tar.NewWriter(f)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if err := i.member(t, name, 0o644, members[name]); err != nil {
			return err
		}
	}
	return t.Close()
}

func (i *image) blob(mediaType string, contents []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(contents), Size: len(contents)}
	i.blobs[d.Digest] = contents
	return d
}

func (i *image) json(mediaType string, v any) descriptor {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // all types here can be encoded
	}
	return i.blob(mediaType, b)
}

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
