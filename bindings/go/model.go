// SPDX-License-Identifier: Apache-2.0

package npuseg

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"context"
	"math"
	"unsafe"
)

// Precision says how the weights of an embedding model are held.
type Precision uint32

const (
	Auto Precision = C.NPUSEG_PRECISION_AUTO
	F32  Precision = C.NPUSEG_PRECISION_F32
	BF16 Precision = C.NPUSEG_PRECISION_BF16
	Int8 Precision = C.NPUSEG_PRECISION_INT8
)

// ModelOptions says how a model is opened; the zero value is the default.
type ModelOptions struct {
	Context     context.Context // stops the opening; nil: nothing does
	Device      string          // auto, cpu, soft
	Threads     uint32          // 0: all that the process may use
	Precision   Precision
	MemoryLimit uint64 // bytes; 0: none
	Progress    Progress
}

type loader func(directory, device *C.char, options *ModelOptions, number C.uintptr_t, out *unsafe.Pointer) C.npuseg_status

func load(what, directory string, options *ModelOptions, call loader) (*handle, error) {
	if err := checkVersion(); err != nil {
		return nil, err
	}
	if options == nil {
		options = &ModelOptions{}
	}
	if err := noNUL("path", directory); err != nil {
		return nil, err
	}
	if err := noNUL("device", options.Device); err != nil {
		return nil, err
	}
	path := C.CString(directory)
	defer C.free(unsafe.Pointer(path))
	var device *C.char
	if options.Device != "" {
		device = C.CString(options.Device)
		defer C.free(unsafe.Pointer(device))
	}
	var object unsafe.Pointer
	err := watched(options.Context, options.Progress, func(number C.uintptr_t) error {
		return try(func() C.npuseg_status { return call(path, device, options, number, &object) })
	})
	if err != nil {
		return nil, err
	}
	return newHandle(what, object), nil
}

// SAM3 is an opened SAM 3 model.
type SAM3 struct{ handle *handle }

// OpenSAM3 opens a model directory; nil options are the defaults.
func OpenSAM3(directory string, options *ModelOptions) (*SAM3, error) {
	h, err := load("model", directory, options,
		func(directory, device *C.char, o *ModelOptions, number C.uintptr_t, out *unsafe.Pointer) C.npuseg_status {
			return C.go_sam3_load(directory, device, C.uint32_t(o.Threads), C.uint32_t(o.Precision),
				C.uint64_t(o.MemoryLimit), number, out)
		})
	if err != nil {
		return nil, err
	}
	return &SAM3{h}, nil
}

// Close gives the model back; pictures and results stay usable. Closing again is fine.
func (m *SAM3) Close() error {
	if m != nil {
		m.handle.close()
	}
	return nil
}

func (m *SAM3) use() (unsafe.Pointer, func(), error) {
	if m == nil {
		return nil, nil, invalid("the model is nil")
	}
	return m.handle.use()
}

// Box is an exemplar in pixels of the upright picture: like this, or not like this.
type Box struct {
	X0, Y0, X1, Y1 float32
	Not            bool
}

// SegmentOptions says how a prompt is answered; the zero value is the default.
type SegmentOptions struct {
	Threshold          float32 // scores above it are instances; 0: 0.5
	MaskThreshold      float32 // 0: 0.5
	MaxInstances       uint32  // 0: all
	Threads            uint32  // 0: as the model
	Boxes              []Box
	TruncatePrompt     bool
	ReplaceInvalidUTF8 bool
	Progress           Progress
}

// Segment finds what the prompt names. An empty prompt with boxes asks for what the boxes show.
func (m *SAM3) Segment(ctx context.Context, picture *Image, prompt string, options *SegmentOptions) (*Result, error) {
	if options == nil {
		options = &SegmentOptions{}
	}
	if len(options.Boxes) > 1000 {
		return nil, &Error{Status: LimitExceeded, Message: "more than 1000 boxes"}
	}
	model, modelDone, err := m.use()
	if err != nil {
		return nil, err
	}
	defer modelDone()
	image, imageDone, err := picture.use()
	if err != nil {
		return nil, err
	}
	defer imageDone()
	boxes := make([]C.npuseg_box, len(options.Boxes)+1)
	for i, b := range options.Boxes {
		boxes[i] = C.npuseg_box{x0: C.float(b.X0), y0: C.float(b.Y0), x1: C.float(b.X1), y1: C.float(b.Y1), label: 1}
		if b.Not {
			boxes[i].label = 0
		}
	}
	var flags C.uint32_t
	if options.TruncatePrompt {
		flags |= C.NPUSEG_SEGMENT_TRUNCATE_PROMPT
	}
	if options.ReplaceInvalidUTF8 {
		flags |= C.NPUSEG_SEGMENT_REPLACE_INVALID_UTF8
	}
	// One byte more than the text, so that there is a first one.
	bytes := append([]byte(prompt), 0)
	text := unsafe.Pointer(&bytes[0])
	if prompt == "" && len(options.Boxes) > 0 {
		text = nil
	}
	var object unsafe.Pointer
	err = watched(ctx, options.Progress, func(number C.uintptr_t) error {
		return try(func() C.npuseg_status {
			return C.go_segment(model, image, text, C.size_t(len(prompt)), flags,
				C.float(options.Threshold), C.float(options.MaskThreshold),
				C.uint32_t(options.MaxInstances), C.uint32_t(options.Threads), &boxes[0],
				C.uint32_t(len(options.Boxes)), number, &object)
		})
	})
	if err != nil {
		return nil, err
	}
	return &Result{newHandle("result", object)}, nil
}

// Embedder is an opened EmbeddingGemma 2 model.
type Embedder struct{ handle *handle }

// OpenEmbedder opens a model directory; nil options are the defaults.
func OpenEmbedder(directory string, options *ModelOptions) (*Embedder, error) {
	h, err := load("model", directory, options,
		func(directory, device *C.char, o *ModelOptions, number C.uintptr_t, out *unsafe.Pointer) C.npuseg_status {
			return C.go_embeddinggemma2_load(directory, device, C.uint32_t(o.Threads),
				C.uint32_t(o.Precision), C.uint64_t(o.MemoryLimit), number, out)
		})
	if err != nil {
		return nil, err
	}
	return &Embedder{h}, nil
}

// Close gives the model back. Closing again is fine.
func (e *Embedder) Close() error {
	if e != nil {
		e.handle.close()
	}
	return nil
}

// EmbedOptions says how an input is embedded; the zero value is the default.
type EmbedOptions struct {
	Task         string // one of the model's task prompts; none: no prompt; empty: the model's default
	Dims         uint32 // numbers of the vector; 0: the largest
	Threads      uint32 // 0: as the model
	TruncateText bool
	Progress     Progress
}

// Text gives the unit vector of a text.
func (e *Embedder) Text(ctx context.Context, text string, options *EmbedOptions) ([]float32, error) {
	return e.embed(ctx, nil, &text, options)
}

// Image gives the unit vector of a picture.
func (e *Embedder) Image(ctx context.Context, picture *Image, options *EmbedOptions) ([]float32, error) {
	if picture == nil {
		return nil, invalid("the picture is nil")
	}
	return e.embed(ctx, picture, nil, options)
}

// ImageText gives the unit vector of a picture followed by a text.
func (e *Embedder) ImageText(ctx context.Context, picture *Image, text string, options *EmbedOptions) ([]float32, error) {
	if picture == nil {
		return nil, invalid("the picture is nil")
	}
	return e.embed(ctx, picture, &text, options)
}

func (e *Embedder) embed(ctx context.Context, picture *Image, text *string, options *EmbedOptions) ([]float32, error) {
	if options == nil {
		options = &EmbedOptions{}
	}
	if e == nil {
		return nil, invalid("the model is nil")
	}
	if err := noNUL("task", options.Task); err != nil {
		return nil, err
	}
	model, modelDone, err := e.handle.use()
	if err != nil {
		return nil, err
	}
	defer modelDone()
	var image, words unsafe.Pointer
	if picture != nil {
		object, done, err := picture.use()
		if err != nil {
			return nil, err
		}
		defer done()
		image = object
	}
	count := 0
	if text != nil {
		bytes := append([]byte(*text), 0)
		words, count = unsafe.Pointer(&bytes[0]), len(*text)
	}
	var task *C.char
	if options.Task != "" {
		task = C.CString(options.Task)
		defer C.free(unsafe.Pointer(task))
	}
	var sizes [64]C.uint32_t
	known := C.size_t(len(sizes))
	if err := try(func() C.npuseg_status {
		return C.npuseg_embeddinggemma2_dims((*C.npuseg_embeddinggemma2)(model), &sizes[0], &known)
	}); err != nil {
		return nil, err
	}
	// The largest has room for any size; a size that the model does not offer is refused below.
	vector := make([]float32, sizes[0])
	var flags C.uint32_t
	if options.TruncateText {
		flags = C.NPUSEG_EMBED_TRUNCATE_TEXT
	}
	err = watched(ctx, options.Progress, func(number C.uintptr_t) error {
		return try(func() C.npuseg_status {
			return C.go_embed(model, image, words, C.size_t(count), flags, task, C.uint32_t(options.Dims),
				C.uint32_t(options.Threads), number, (*C.float)(&vector[0]), C.size_t(len(vector)))
		})
	})
	if err != nil {
		return nil, err
	}
	if options.Dims != 0 {
		vector = vector[:options.Dims]
	}
	return vector, nil
}

// Similarity is the cosine of two unit vectors.
func Similarity(a, b []float32) (float32, error) {
	if len(a) != len(b) || len(a) == 0 {
		return 0, invalid("vectors of %d and %d numbers", len(a), len(b))
	}
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	if math.IsNaN(sum) {
		return 0, invalid("a vector that has NaN")
	}
	return float32(sum), nil
}
