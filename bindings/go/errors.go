// SPDX-License-Identifier: Apache-2.0

// Package npuseg finds what a text names in pictures (SAM 3) and turns pictures and texts into
// comparable vectors (EmbeddingGemma 2), with the library libnpuseg.
//
// Everything may be used from any number of goroutines. Close gives memory back at once; what is
// not closed goes with the garbage collection.
package npuseg

// #cgo pkg-config: npuseg
// #include "shim.h"
import "C"

import (
	"fmt"
	"runtime"
	"strings"
)

// Status is what kind of failure it was; errors.Is(err, npuseg.NotFound) asks for it.
type Status int32

const (
	InvalidArgument   Status = C.NPUSEG_INVALID_ARGUMENT
	OutOfMemory       Status = C.NPUSEG_OUT_OF_MEMORY
	NotFound          Status = C.NPUSEG_NOT_FOUND
	IO                Status = C.NPUSEG_IO
	CorruptData       Status = C.NPUSEG_CORRUPT_DATA
	Unsupported       Status = C.NPUSEG_UNSUPPORTED
	LimitExceeded     Status = C.NPUSEG_LIMIT_EXCEEDED
	BufferTooSmall    Status = C.NPUSEG_BUFFER_TOO_SMALL
	DeviceUnavailable Status = C.NPUSEG_DEVICE_UNAVAILABLE
	DeviceBusy        Status = C.NPUSEG_DEVICE_BUSY
	DeviceLost        Status = C.NPUSEG_DEVICE_LOST
	Timeout           Status = C.NPUSEG_TIMEOUT
	Cancelled         Status = C.NPUSEG_CANCELLED
	Internal          Status = C.NPUSEG_INTERNAL
	WrongState        Status = C.NPUSEG_WRONG_STATE
)

// Error is the status's name, for example NOT_FOUND.
func (s Status) Error() string { return C.GoString(C.npuseg_status_name(C.npuseg_status(s))) }

// Error is every failure of this package: what kind, and what failed, where and what to do.
type Error struct {
	Status  Status
	Message string
	cause   error
}

func (e *Error) Error() string { return "npuseg: " + e.Message }

// Is reports whether target is the error's status.
func (e *Error) Is(target error) bool {
	status, ok := target.(Status)
	return ok && status == e.Status
}

// Unwrap gives the context's error when a context stopped the call.
func (e *Error) Unwrap() error { return e.cause }

func invalid(format string, values ...any) error {
	return &Error{Status: InvalidArgument, Message: fmt.Sprintf(format, values...)}
}

// try runs one call of the library. The message of a failure belongs to the thread of the call, so
// the goroutine stays on it until the message is read.
func try(call func() C.npuseg_status) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status := call()
	if status == C.NPUSEG_OK {
		return nil
	}
	return &Error{Status: Status(status), Message: C.GoString(C.npuseg_last_error())}
}

// Version is that of the library which is loaded, for example 0.1.0.
func Version() string { return C.GoString(C.npuseg_version_string()) }

// checkVersion fails when the library is not of the version this package was compiled against;
// before 1.0 that includes the minor version.
func checkVersion() error {
	version := uint32(C.npuseg_version())
	if version>>8 == C.NPUSEG_VERSION_MAJOR<<8|C.NPUSEG_VERSION_MINOR {
		return nil
	}
	return &Error{Status: Unsupported, Message: fmt.Sprintf(
		"the library is version %s, the program was built against %d.%d: build it again",
		Version(), C.NPUSEG_VERSION_MAJOR, C.NPUSEG_VERSION_MINOR)}
}

func noNUL(what, text string) error {
	if at := strings.IndexByte(text, 0); at >= 0 {
		return invalid("the %s has a NUL at byte %d", what, at)
	}
	return nil
}
