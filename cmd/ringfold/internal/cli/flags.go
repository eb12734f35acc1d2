package cli

import "github.com/spf13/pflag"

// Output says how a command prints.
type Output struct{ Format Format }

// Flags defines -o and --json.
func (o *Output) Flags(f *pflag.FlagSet) {
	o.Format = Text
	f.VarP(&o.Format, "output", "o", "print `text|compact|json`; json is an object per line")
	f.VarPF(jsonFlag{&o.Format}, "json", "", "the same as -o json").NoOptDefVal = "true"
}

// jsonFlag is a flag without a value.
type jsonFlag struct{ format *Format }

func (jsonFlag) String() string { return "" }
func (jsonFlag) Type() string   { return "bool" }

func (j jsonFlag) Set(string) error {
	*j.format = JSON
	return nil
}
