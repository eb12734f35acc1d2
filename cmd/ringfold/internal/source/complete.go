package source

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/cilium/ebpf/btf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/spf13/cobra"
)

// Complete has the shell complete a command's arguments, if the command does not, and those of the flags here that it has.
func (f *Flags) Complete(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = f.completeArguments
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"process": CompleteProcess, "event": f.completeEvent, "type": f.completeType, "btf-prog": f.completeProgram,
	} {
		if cmd.Flags().Lookup(flag) != nil {
			cmd.RegisterFlagCompletionFunc(flag, complete)
		}
	}
}

// completions are what the shell offers. The methods of Flags that make them are cobra.CompletionFuncs.
type completions = []cobra.Completion

// plain is a word that a shell takes as it is. Others are not offered: names may hold anything.
var plain = regexp.MustCompile(`^[\w./@:+-]+$`)

func offer(all completions, word, about string) completions {
	if plain.MatchString(word) {
		all = append(all, cobra.CompletionWithDesc(word, about))
	}
	return all
}

// offered is all of it, each once, or why it is nothing.
func offered(all completions, err error) (completions, cobra.ShellCompDirective) {
	if err != nil {
		all = cobra.AppendActiveHelp(nil, err.Error())
	}
	slices.Sort(all)
	return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp
}

// maps are those that may be meant: of Process, and among those that the command line names already, if it does. why is why there are none.
func (f *Flags) maps() (maps []bpfmaps.Map, why error) {
	maps, why = bpfmaps.List(f.Process)
	return slices.DeleteFunc(maps, func(m bpfmaps.Map) bool {
		return len(f.Maps) > 0 && !slices.ContainsFunc(f.Maps, func(s bpfmaps.Selector) bool {
			return s.ID == m.ID || s.Name != "" && s.Name == m.Name || slices.Contains(m.Pins, s.Pin)
		})
	}), why
}

// completeArguments offers what arguments reads.
func (f *Flags) completeArguments(_ *cobra.Command, args []string, word string) (all completions, _ cobra.ShellCompDirective) {
	behind := ""
	for _, arg := range args {
		if behind == "" && slices.Contains(selectors, arg) {
			behind = arg
		} else {
			behind = ""
		}
	}
	switch behind {
	case "":
		all = slices.Clone(selectors)
		recordings, _ := filepath.Glob(word + "*.data")
		for _, path := range recordings {
			all = offer(all, path, "")
		}
		return all, cobra.ShellCompDirectiveDefault
	case "file":
		return nil, cobra.ShellCompDirectiveDefault
	}
	maps, err := f.maps()
	for _, m := range maps {
		switch behind {
		case "id":
			all = offer(all, fmt.Sprint(m.ID), m.Whose())
		case "name":
			all = offer(all, m.Name, m.Whose())
		case "pinned":
			for _, path := range m.Pins {
				all = offer(all, path, m.Whose())
			}
		}
	}
	return offered(all, err)
}

// CompleteProcess is a cobra.CompletionFunc: processes that hold maps.
func CompleteProcess(*cobra.Command, []string, string) (all completions, _ cobra.ShellCompDirective) {
	maps, err := bpfmaps.List("")
	for _, m := range maps {
		for _, p := range m.Others() {
			all = offer(all, p.Comm, fmt.Sprintf("pid %d", p.PID))
		}
	}
	return offered(all, err)
}

// events are those of the recordings.
func (f *Flags) events() (all []perfdata.EventInfo, err error) {
	for _, file := range f.Files {
		events, bad := perfdata.Events(file)
		all, err = append(all, events...), errors.Join(err, bad)
	}
	return all, err
}

// completeEvent offers the events of recordings.
func (f *Flags) completeEvent(_ *cobra.Command, args []string, _ string) (all completions, _ cobra.ShellCompDirective) {
	f.arguments(args)
	events, err := f.events()
	for _, e := range events {
		all = offer(all, e.Name, "")
	}
	return offered(all, err)
}

// completeType offers what may be decoded as: of the BTF that would be looked into.
func (f *Flags) completeType(_ *cobra.Command, args []string, _ string) (all completions, _ cobra.ShellCompDirective) {
	f.arguments(args)
	types, err := f.types()
	for _, typ := range types {
		all = offer(all, typ.TypeName(), "")
	}
	return offered(all, err)
}

func (f *Flags) types() (types []btf.Type, err error) {
	switch {
	case f.BTF != "":
		spec, err := btf.LoadSpec(f.BTF)
		if err != nil {
			return nil, err
		}
		return named(spec), nil
	case f.recorded():
		events, err := f.events()
		for _, e := range events {
			if spec, err := loadForeign(e.BTF); err == nil && (f.Event == "" || f.Event == e.Name) {
				types = append(types, named(spec)...)
			}
		}
		return types, err
	}
	maps, err := f.maps()
	for _, m := range maps {
		types = append(types, typesOf(m.Programs)...)
	}
	return types, err
}

// completeProgram offers the programs of the maps.
func (f *Flags) completeProgram(_ *cobra.Command, args []string, _ string) (all completions, _ cobra.ShellCompDirective) {
	f.arguments(args)
	maps, err := f.maps()
	for _, m := range maps {
		for _, p := range m.Programs {
			all = offer(all, p.Name, p.String())
		}
	}
	return offered(all, err)
}
