package bpf

import (
	"encoding/binary"
	"errors"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ProgLoad calls BPF_PROG_LOAD and returns the program's descriptor, which is close-on-exec; the
// caller closes it. progType is enum bpf_prog_type. If the verifier refuses, the error has the end
// of its log.
func ProgLoad(progType int, name, license string, insns []Insn) (int, error) {
	code := encode(insns)
	licenseText := append([]byte(license), 0)
	attr := struct {
		progType, insnCount             uint32
		insns, license                  unsafe.Pointer
		logLevel, logSize               uint32
		log                             unsafe.Pointer
		kernelVersion, flags            uint32
		name                            [16]byte
		ifindex, expectedAttachType, fd uint32
	}{
		progType: uint32(progType), insnCount: uint32(len(insns)), name: objName(name),
		insns: unsafe.Pointer(unsafe.SliceData(code)), license: unsafe.Pointer(unsafe.SliceData(licenseText)),
	}
	load := func() (fd int, err error) {
		for range 5 { // a signal may interrupt the verifier; libbpf tries as often
			if fd, err = call(unix.BPF_PROG_LOAD, "BPF_PROG_LOAD", &attr); !errors.Is(err, unix.EAGAIN) {
				break
			}
		}
		return fd, err
	}
	fd, err := charged(load)
	if err == nil {
		return fd, nil
	}
	log := make([]byte, 1<<16)
	attr.logLevel, attr.logSize, attr.log = 1, uint32(len(log)), unsafe.Pointer(unsafe.SliceData(log))
	if fd, err = load(); err != nil {
		err.(*Error).Detail = lastLines(unix.ByteSliceToString(log))
	}
	return fd, err
}

// encode returns struct bpf_insn's 8 bytes of each instruction.
func encode(insns []Insn) []byte {
	// It has two fields of four bits, ordered like the machine's bytes.
	low, high := 0, 4
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		low, high = 4, 0
	}
	code := make([]byte, 0, 8*len(insns))
	for _, i := range insns {
		code = append(code, i.Code, i.Dst<<low|i.Src<<high)
		code = binary.NativeEndian.AppendUint16(code, uint16(i.Off))
		code = binary.NativeEndian.AppendUint32(code, uint32(i.Imm))
	}
	return code
}

// lastLines returns the last lines of a verifier's log, without its statistics.
func lastLines(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "processed ") && !strings.HasPrefix(line, "verification time") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// ProgTestRun calls BPF_PROG_TEST_RUN, which runs the program once. It blocks, and returns the
// program's return value. data is a packet and ctx a context, for types that take them. A cpu of at
// least 0 runs the program on that CPU, in an interrupt (BPF_F_TEST_RUN_ON_CPU, raw tracepoints
// only, Linux 5.10).
func ProgTestRun(progFD int, data, ctx []byte, cpu int) (uint32, error) {
	attr := struct {
		progFD, result, dataIn, dataOut    uint32
		data, output                       unsafe.Pointer
		repeat, duration, ctxIn, ctxOut    uint32
		ctx, ctxOutput                     unsafe.Pointer
		flags, cpu, batchSize, notYetKnown uint32
	}{
		progFD: uint32(progFD), dataIn: uint32(len(data)), data: unsafe.Pointer(unsafe.SliceData(data)),
		ctxIn: uint32(len(ctx)), ctx: unsafe.Pointer(unsafe.SliceData(ctx)),
	}
	if cpu >= 0 {
		attr.flags, attr.cpu = unix.BPF_F_TEST_RUN_ON_CPU, uint32(cpu)
	}
	_, err := call(unix.BPF_PROG_TEST_RUN, "BPF_PROG_TEST_RUN", &attr)
	return attr.result, err
}
