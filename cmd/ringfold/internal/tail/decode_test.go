package tail

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/aquasecurity/libbpfgo"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// sampleText is what is made of decode.bpf.c's sample.
const sampleText = `big=9223372036854775808 comm="a \"b\"\n" cold=-40 color=GREEN unknown=3 sign=MINUS low=5 middle=100 high=65534 minus=-3 rest=1000 ` +
	`pointer=0xffff888000001000 at={x=-1 y=2} inner=9 both=513 bytes=0102 path=[{x=3 y=4} {x=5 y=6}] address=deadbeef0001 yes=true no=false one=-1 ` +
	`pointers=[0x10] ratio=0.5 end="the end"`

// sampler is the loaded decode.bpf.o.
type sampler struct {
	id     string
	size   uint64             // of the struct
	output func(bytes uint64) // on CPU 0
}

// onCilium has cilium/ebpf load it, which gives the program's BTF only the types that it needs, and its maps theirs.
func onCilium(t *testing.T) sampler {
	kerneltest.Require(t)
	require.NoError(t, rlimit.RemoveMemlock()) // before Linux 5.11
	c, err := ebpf.LoadCollection("../source/decode.bpf.o")
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return sampler{clitest.MapID(t, c.Maps["decode_events"].FD()), sampleSize(t), func(size uint64) {
		const onCPU = 1 // BPF_F_TEST_RUN_ON_CPU
		ret, err := c.Programs["output_sample"].Run(&ebpf.RunOptions{Context: [2]uint64{size, 0}, Flags: onCPU})
		require.NoError(t, err)
		require.Zero(t, int32(ret))
	}}
}

// onLibbpf has libbpf load it, with all types.
func onLibbpf(t *testing.T) sampler {
	kerneltest.Require(t)
	m, err := libbpfgo.NewModuleFromFileArgs(libbpfgo.NewModuleArgs{BPFObjPath: "../source/decode.bpf.o", SkipMemlockBump: true})
	require.NoError(t, err)
	t.Cleanup(m.Close)
	require.NoError(t, m.BPFLoadObject())
	events, err := m.GetMap("decode_events")
	require.NoError(t, err)
	prog, err := m.GetProgram("output_sample")
	require.NoError(t, err)
	return sampler{clitest.MapID(t, events.FileDescriptor()), sampleSize(t), func(size uint64) {
		args := binary.LittleEndian.AppendUint64(nil, size)
		args = append(args, make([]byte, 8)...)
		opts := libbpfgo.RunOpts{CtxIn: args, CtxSizeIn: uint32(len(args)), Flags: libbpfgo.RunFlagRunOnCPU}
		require.NoError(t, prog.Run(&opts))
		require.Zero(t, int32(opts.RetVal))
	}}
}

func sampleSize(t *testing.T) uint64 {
	t.Helper()
	spec, err := btf.LoadSpec("../source/decode.bpf.o")
	require.NoError(t, err)
	var sample *btf.Struct
	require.NoError(t, spec.TypeByName("sample", &sample))
	return uint64(sample.Size)
}

func TestDecode(t *testing.T) {
	for _, load := range []func(*testing.T) sampler{onCilium, onLibbpf} {
		s := load(t)
		for _, args := range [][]string{
			{"--type", "sample"}, {"--type", "struct sample"}, {"--type", "sample_t"},
			{"--type", "sample", "--btf-prog", "output_sample"}, {"--type", "sample", "--btf", "../source/decode.bpf.o"},
		} {
			r := start(t, append([]string{"id", s.id, "--steal", "-n", "1"}, args...)...)
			s.output(s.size)
			require.Contains(t, r.Wait(t), strconv.Itoa(int(s.size+4+7)&^7-4)+"  "+sampleText+"\n")
			require.NotContains(t, r.Notes.String(), "left out")
		}
	}
	s := onLibbpf(t)
	r := start(t, "id", s.id, "--steal", "-n", "1", "--type", "sample", "--json")
	s.output(s.size)
	events, _ := parseJSON(t, r.Wait(t))
	require.Equal(t, `{"big":9223372036854775808,"comm":"a \"b\"\n","cold":-40,"color":"GREEN","unknown":3,"sign":"MINUS","low":5,"middle":100,"high":65534,`+
		`"minus":-3,"rest":1000,"pointer":"0xffff888000001000","at":{"x":-1,"y":2},"inner":9,"both":513,"bytes":"0102","path":[{"x":3,"y":4},{"x":5,"y":6}],`+
		`"address":"deadbeef0001","yes":true,"no":false,"one":-1,"pointers":["0x10"],"ratio":0.5,"end":"the end"}`, string(events[0].Fields))
}

// Of a payload that is shorter than the type, the Fields that are there are shown, and this is said once.
func TestDecodeShort(t *testing.T) {
	s := onLibbpf(t)
	r := start(t, "id", s.id, "--steal", "-n", "2", "--type", "sample")
	s.output(12) // no padding
	s.output(28)
	out := r.Wait(t)
	require.Contains(t, out, "   12  big=9223372036854775808 comm=\"a \\\"b\"\n")
	require.Contains(t, out, "   28  big=9223372036854775808 comm=\"a \\\"b\\\"\\n\" cold=-40\n")
	require.Equal(t, 1, strings.Count(r.Notes.String(), "struct sample has "+strconv.Itoa(int(s.size))+" bytes, but there are events with 12 "))
	require.Equal(t, 1, strings.Count(r.Notes.String(), "left out"))
}

func TestTypeNotThere(t *testing.T) {
	s := onLibbpf(t)
	for want, args := range map[string][]string{
		`no struct or union "nonsense"; it has `:      {"--type", "nonsense"},
		"--btf FILE takes it from elsewhere":          {"--type", "color"}, // an enum
		"no program of the map has that name":         {"--type", "sample", "--btf-prog", "nonsense"},
		"there is no program with the id 4294967294 ": {"--type", "sample", "--btf-prog", "4294967294"},
		"it takes a BPF object that was built with ":  {"--type", "sample", "--btf", "tail.go"},
	} {
		fails(t, want, append([]string{"id", s.id, "--steal"}, args...)...)
	}
}

// What is wrong is said, not that the type is missing: of a program that cilium/ebpf has loaded, its map's BTF may have it.
func TestTypesOfCilium(t *testing.T) {
	s := onCilium(t)
	_, _, notes := clitest.Run(t, Command, "id", s.id, "--steal", "--type", "nonsense")
	require.Regexp(t, `it has .*\bsample\b`, notes)

	for n := 8; ; n++ { // with ever more files, until all is well; with fewer, Go does not start
		cmd, stderr := clitest.Command(t, "tail", "id", s.id, "--steal", "--type", "sample", "--timeout", "1ms")
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", "ulimit -n " + strconv.Itoa(n) + ` && exec "$0" "$@"`,
			"/proc/" + strconv.Itoa(os.Getpid()) + "/exe"}, cmd.Args[1:]...)
		if cmd.Run() == nil {
			return
		}
		require.Contains(t, stderr.String(), "too many open files")
		require.NotContains(t, stderr.String(), "has no struct")
	}
}
