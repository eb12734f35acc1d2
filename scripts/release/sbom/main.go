// Command sbom prints what a program without cgo consists of, as CycloneDX JSON: the Go modules that are recorded in it, and Go's
// standard library.
//
//	sbom PROGRAM
//
// The same program gives the same bytes. The time is SOURCE_DATE_EPOCH.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Fields of CycloneDX 1.6, in the order in which its schema has them.
type (
	bom struct {
		Format       string       `json:"bomFormat"`
		SpecVersion  string       `json:"specVersion"`
		SerialNumber string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp,omitempty"`
		Component component `json:"component"`
	}
	component struct {
		Type    string `json:"type"`
		Ref     string `json:"bom-ref"`
		Name    string `json:"name"`
		Version string `json:"version"`
		Hashes  []hash `json:"hashes,omitempty"`
		PURL    string `json:"purl"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("sbom: ")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("name one program")
	}
	if err := run(os.Stdout, flag.Arg(0), os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer, program, epoch string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	b, err := describe(info)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	contents, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(contents)
	b.Metadata.Component.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
	b.SerialNumber = serial(sum)
	if epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH is no number of seconds: %w", err)
		}
		b.Metadata.Timestamp = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // purls have &
	enc.SetIndent("", "  ")
	return enc.Encode(b)
}

// describe lists what a program was built from. One that was not built from versions of modules alone has no SBOM.
func describe(info *debug.BuildInfo) (bom, error) {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	main, err := module(&info.Main)
	if err != nil {
		return bom{}, err
	}
	main.Type, main.Hashes = "application", nil
	main.Name = path.Base(info.Path)
	main.PURL += "?goos=" + settings["GOOS"] + "&goarch=" + settings["GOARCH"]
	if sub := strings.Trim(strings.TrimPrefix(info.Path, info.Main.Path), "/"); sub != "" {
		main.PURL += "#" + sub
	}
	b := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{Component: main}}
	for _, m := range info.Deps {
		c, err := module(m)
		if err != nil {
			return bom{}, err
		}
		b.Components = append(b.Components, c)
	}
	version := strings.TrimPrefix(info.GoVersion, "go")
	b.Components = append(b.Components, library("std", version, "pkg:golang/std@"+version))
	all := dependency{Ref: main.Ref}
	for _, c := range b.Components {
		all.DependsOn = append(all.DependsOn, c.Ref)
	}
	b.Dependencies = []dependency{all}
	return b, nil
}

func module(m *debug.Module) (component, error) {
	if m.Replace != nil {
		return component{}, fmt.Errorf("%s is replaced by %s: build from versions, as go install MODULE@VERSION does", m.Path, m.Replace.Path)
	}
	if m.Version == "" || m.Version == "(devel)" {
		return component{}, fmt.Errorf("%s has no version: build from versions, as go install MODULE@VERSION does", m.Path)
	}
	c := library(m.Path, m.Version, "pkg:golang/"+m.Path+"@"+strings.ReplaceAll(m.Version, "+", "%2B"))
	if encoded, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
		sum, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return component{}, fmt.Errorf("%s: sum %q: %w", m.Path, m.Sum, err)
		}
		c.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum)}} // of the list of files, as other tools have it
	}
	return c, nil
}

func library(name, version, purl string) component {
	return component{Type: "library", Ref: purl, Name: name, Version: version, PURL: purl}
}

// serial makes a UUID (version 8) of a sum: CycloneDX wants one for each document, and the same program has the same.
func serial(sum [32]byte) string {
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
