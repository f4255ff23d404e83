// SPDX-License-Identifier: Apache-2.0

package npuseg

// #include "shim.h"
import "C"

import (
	"image"
	"unsafe"
)

// Result is the answer to one prompt on one picture.
type Result struct{ handle *handle }

// Instance is one found object; the box is x0, y0, x1, y1 in pixels.
type Instance struct {
	Score float32
	Box   [4]float32
	Area  uint64
}

// Close gives the result back. Closing again is fine.
func (r *Result) Close() error {
	if r != nil {
		r.handle.close()
	}
	return nil
}

func (r *Result) use() (*C.npuseg_result, func(), error) {
	if r == nil {
		return nil, nil, invalid("the result is nil")
	}
	object, done, err := r.handle.use()
	return (*C.npuseg_result)(object), done, err
}

// Instances are the found objects, best first.
func (r *Result) Instances() ([]Instance, error) {
	result, done, err := r.use()
	if err != nil {
		return nil, err
	}
	defer done()
	info := C.npuseg_result_data{struct_size: C.sizeof_npuseg_result_data}
	if err := try(func() C.npuseg_status { return C.npuseg_result_info(result, &info) }); err != nil {
		return nil, err
	}
	found := make([]C.npuseg_instance, info.instances+1)
	count := C.size_t(len(found))
	if err := try(func() C.npuseg_status {
		return C.npuseg_result_instances(result, &found[0], C.sizeof_npuseg_instance, &count)
	}); err != nil {
		return nil, err
	}
	instances := make([]Instance, count)
	for i := range instances {
		f := &found[i]
		instances[i] = Instance{float32(f.score), *(*[4]float32)(unsafe.Pointer(&f.box)), uint64(f.area)}
	}
	return instances, nil
}

// Mask is that of an instance at picture size, 0 or 255; the library writes into its pixels.
func (r *Result) Mask(index int) (*image.Gray, error) {
	result, done, err := r.use()
	if err != nil {
		return nil, err
	}
	defer done()
	info := C.npuseg_result_data{struct_size: C.sizeof_npuseg_result_data}
	if err := try(func() C.npuseg_status { return C.npuseg_result_info(result, &info) }); err != nil {
		return nil, err
	}
	mask := image.NewGray(image.Rect(0, 0, int(info.width), int(info.height)))
	return mask, r.CopyMask(index, mask.Pix, mask.Stride)
}

// CopyMask writes a mask into memory of the caller; when that is too short nothing is written.
func (r *Result) CopyMask(index int, dst []byte, stride int) error {
	if index < 0 || stride < 0 {
		return invalid("instance %d, %d bytes a row", index, stride)
	}
	return r.mask(index, C.NPUSEG_MASK_BYTES, dst, stride)
}

// RLE is the mask of an instance as COCO's compressed run lengths.
func (r *Result) RLE(index int) (string, error) {
	if index < 0 {
		return "", invalid("instance %d", index)
	}
	result, done, err := r.use()
	if err != nil {
		return "", err
	}
	defer done()
	var needed C.size_t
	err = try(func() C.npuseg_status {
		return C.npuseg_result_mask(result, C.size_t(index), C.NPUSEG_MASK_RLE_STRING, nil, 0, 0, &needed)
	})
	if failed, ok := err.(*Error); ok && failed.Status != BufferTooSmall {
		return "", err
	}
	text := make([]byte, needed)
	if err := r.mask(index, C.NPUSEG_MASK_RLE_STRING, text, 0); err != nil {
		return "", err
	}
	return string(text[:len(text)-1]), nil
}

func (r *Result) mask(index int, kind C.uint32_t, dst []byte, stride int) error {
	result, done, err := r.use()
	if err != nil {
		return err
	}
	defer done()
	if len(dst) == 0 {
		return &Error{Status: BufferTooSmall, Message: "the mask's destination has no bytes"}
	}
	return try(func() C.npuseg_status {
		return C.npuseg_result_mask(result, C.size_t(index), kind, unsafe.Pointer(&dst[0]), C.size_t(stride),
			C.size_t(len(dst)), nil)
	})
}
