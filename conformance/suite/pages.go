package suite

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
)

// entry is a scenario; the doc comment of the function called page is its page. One function may stand for several scenarios.
type entry struct {
	name, page string
	run        func(*T)
}

// groups are in the order in which they run.
var groups = [][]entry{
	orderScenarios, orderLoadScenarios,
	conservationScenarios, sizeScenarios, damageScenarios, ringbufConservation,
	overloadScenarios,
	deliveryScenarios, ringbufDelivery,
	lifeScenarios, ringbufLife,
}

//go:embed *.go
var sources embed.FS

// All returns the scenarios, by subject.
func All() (all []Scenario, err error) {
	pages, err := readPages()
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		for _, e := range group {
			page, ok := pages[e.page]
			if !ok {
				return nil, fmt.Errorf("scenario %s has no page: there is no func %s with a doc comment", e.name, e.page)
			}
			all = append(all, Scenario{Name: e.name, Page: page, run: e.run})
		}
	}
	return all, nil
}

// Select returns those whose names are, or begin with, one of a comma list; all, if it is empty.
func Select(all []Scenario, list string) (selected []Scenario, err error) {
	if list == "" {
		return all, nil
	}
	for want := range strings.SplitSeq(list, ",") {
		n := len(selected)
		for _, s := range all {
			if s.Name == want || strings.HasPrefix(s.Name, want+"/") {
				selected = append(selected, s)
			}
		}
		if len(selected) == n {
			return nil, fmt.Errorf("no scenario is called %q, nor a group of them: -list has their names", want)
		}
	}
	return selected, nil
}

// readPages returns the doc comments of functions, by name.
func readPages() (map[string]string, error) {
	pages := map[string]string{}
	files, err := fs.Glob(sources, "*.go")
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		b, err := sources.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, b, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Doc != nil && f.Recv == nil {
				pages[f.Name.Name] = strings.TrimSpace(strings.TrimPrefix(f.Doc.Text(), f.Name.Name+": "))
			}
		}
	}
	return pages, nil
}
