// SPDX-License-Identifier: Apache-2.0

package npuseg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// The demo models of the source tree.
func demo(parts ...string) string {
	root := os.Getenv("NPUSEG_DEMO")
	if root == "" {
		root = "../../demo"
	}
	return filepath.Join(append([]string{root}, parts...)...)
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](t *testing.T) func(value T, err error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func wants(t *testing.T, err error, status Status, words string) {
	t.Helper()
	if !errors.Is(err, status) || !strings.Contains(fmt.Sprint(err), words) {
		t.Fatalf("%v, not %v with %q", err, status, words)
	}
}

func openSAM3(t *testing.T) *SAM3 {
	model := must[*SAM3](t)(OpenSAM3(demo("sam3"), nil))
	t.Cleanup(func() { model.Close() })
	return model
}

func open(t *testing.T, name string) *Image {
	return must[*Image](t)(OpenImage(demo("sam3", "samples", name)))
}

func TestPromptsOnTwoPictures(t *testing.T) {
	var expected struct {
		Images []struct {
			File          string
			Width, Height int
			Prompts       []struct {
				Text   string
				Scores []float32
				Areas  []float64
				Box    []float32
			}
		}
	}
	read(t, demo("sam3", "samples", "expected.json"), &expected)
	model, cases := openSAM3(t), 0
	for _, picture := range expected.Images[:2] {
		photo := open(t, picture.File)
		defer photo.Close()
		width, height, err := photo.Size()
		if err != nil || width != picture.Width || height != picture.Height {
			t.Fatal(width, height, err)
		}
		for _, prompt := range picture.Prompts {
			text, options := prompt.Text, &SegmentOptions{}
			if b := prompt.Box; len(b) == 4 {
				text, options.Boxes = "", []Box{{X0: b[0], Y0: b[1], X1: b[2], Y1: b[3]}}
			}
			result := must[*Result](t)(model.Segment(context.Background(), photo, text, options))
			found := must[[]Instance](t)(result.Instances())
			if len(found) != len(prompt.Scores) {
				t.Fatalf("%s: %d instances, not %d", prompt.Text, len(found), len(prompt.Scores))
			}
			for i, thing := range found {
				near := false
				for k, score := range prompt.Scores {
					near = near || math.Abs(float64(score-thing.Score)) < 1e-4 &&
						math.Abs(prompt.Areas[k]-float64(thing.Area)) <= 8
				}
				if !near {
					t.Errorf("%s: %+v is not in %v", prompt.Text, thing, prompt.Scores)
				}
				mask, area := must[*image.Gray](t)(result.Mask(i)), uint64(0)
				for _, pixel := range mask.Pix {
					area += uint64(pixel) / 255
				}
				if area != thing.Area {
					t.Errorf("a mask of %d pixels, not %d", area, thing.Area)
				}
				if rle := must[string](t)(result.RLE(i)); len(rle) < 10 {
					t.Errorf("run lengths %q", rle)
				}
				cases++
			}
			if len(found) > 0 {
				short := []byte{7, 7, 7}
				wants(t, result.CopyMask(0, short, 0), BufferTooSmall, "")
				if short[0] != 7 {
					t.Error("a short buffer was written to")
				}
			}
			wants(t, result.CopyMask(len(found), make([]byte, 1<<20), 0), InvalidArgument, "")
			result.Close()
		}
	}
	if cases < 8 {
		t.Fatalf("only %d instances", cases)
	}
}

func TestBoxes(t *testing.T) {
	model, photo := openSAM3(t), open(t, "a.png")
	box := Box{X0: 120, Y0: 126, X1: 203, Y1: 218}
	result := must[*Result](t)(model.Segment(nil, photo, "", &SegmentOptions{Boxes: []Box{box}}))
	if len(must[[]Instance](t)(result.Instances())) == 0 {
		t.Error("nothing like the box")
	}
	for _, bad := range []Box{{X0: 9, X1: 3, Y1: 5}, {X0: float32(math.NaN()), X1: 3, Y1: 5}} {
		_, err := model.Segment(nil, photo, "square", &SegmentOptions{Boxes: []Box{bad}})
		wants(t, err, InvalidArgument, "box")
	}
	_, err := model.Segment(nil, photo, "square", &SegmentOptions{Boxes: make([]Box, 1001)})
	wants(t, err, LimitExceeded, "1000")
}

func TestPixelsOfGo(t *testing.T) {
	model := openSAM3(t)
	file, err := os.Open(demo("sam3", "samples", "a.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoded := must[image.Image](t)(png.Decode(file))
	// Inside a larger picture: neither begins its memory at the part nor is tight.
	large := image.NewNRGBA(image.Rect(-5, -5, 400, 300))
	for y := 0; y < 240; y++ {
		for x := 0; x < 320; x++ {
			large.Set(x, y, decoded.At(x, y))
		}
	}
	expected := must[[]Instance](t)(must[*Result](t)(
		model.Segment(nil, open(t, "a.png"), "purple squares", nil)).Instances())
	for _, pixels := range []image.Image{decoded, large.SubImage(image.Rect(0, 0, 320, 240))} {
		photo := must[*Image](t)(NewImage(pixels))
		found := must[[]Instance](t)(must[*Result](t)(
			model.Segment(nil, photo, "purple squares", nil)).Instances())
		if fmt.Sprint(found) != fmt.Sprint(expected) {
			t.Errorf("%v, not %v", found, expected)
		}
	}
	bytes := must[[]byte](t)(os.ReadFile(demo("sam3", "samples", "b.png")))
	must[*Image](t)(DecodeImage(bytes))
	_, err = DecodeImage(bytes[:200])
	wants(t, err, CorruptData, "")
	_, err = DecodeImage(nil)
	wants(t, err, CorruptData, "")
	var none *image.NRGBA
	for _, bad := range []image.Image{nil, none, image.NewGray(image.Rectangle{}),
		&image.NRGBA{Pix: make([]byte, 40), Stride: 40, Rect: image.Rect(0, 0, 10, 10)},
		&image.NRGBA{Pix: make([]byte, 400), Stride: -40, Rect: image.Rect(0, 0, 10, 10)},
		image.NewUniform(color.White)} {
		_, err := NewImage(bad)
		wants(t, err, InvalidArgument, "")
	}
}

func TestEmbeddings(t *testing.T) {
	var expected struct {
		Pictures []struct{ File string }
		Texts    []struct{ Text string }
		By       map[string][][]float32 `json:"similarity_by_dimensions"`
	}
	read(t, demo("embeddinggemma2", "samples", "expected.json"), &expected)
	model := must[*Embedder](t)(OpenEmbedder(demo("embeddinggemma2"), nil))
	defer model.Close()
	for _, dims := range []uint32{128, 64} {
		for p := 0; p < 2; p++ {
			photo := must[*Image](t)(OpenImage(demo("embeddinggemma2", "samples", expected.Pictures[p].File)))
			picture := must[[]float32](t)(model.Image(nil, photo, &EmbedOptions{Dims: dims}))
			text := must[[]float32](t)(model.Text(nil, expected.Texts[0].Text,
				&EmbedOptions{Dims: dims, Task: "query"}))
			near := must[float32](t)(Similarity(picture, text))
			rows := expected.By[fmt.Sprint(dims)]
			if math.Abs(float64(near-rows[0][p])) > 1e-4 && math.Abs(float64(near-rows[p][0])) > 1e-4 {
				t.Errorf("similarity %v, not %v or %v", near, rows[0][p], rows[p][0])
			}
			must[[]float32](t)(model.ImageText(nil, photo, "red", nil))
		}
	}
	_, err := model.Text(nil, "red", &EmbedOptions{Dims: 77})
	wants(t, err, InvalidArgument, "77")
	_, err = model.Text(nil, "red", &EmbedOptions{Task: "no such task"})
	wants(t, err, InvalidArgument, "no such task")
	_, err = model.Text(nil, "\xff\xfe", nil)
	wants(t, err, InvalidArgument, "UTF-8")
	_, err = model.Image(nil, nil, nil)
	wants(t, err, InvalidArgument, "nil")
	_, err = Similarity([]float32{1}, []float32{1, 0})
	wants(t, err, InvalidArgument, "1 and 2")
}

func TestHostileArguments(t *testing.T) {
	_, err := OpenSAM3("/no/such/place", nil)
	wants(t, err, NotFound, "/no/such/place")
	_, err = OpenSAM3("a\x00b", nil)
	wants(t, err, InvalidArgument, "NUL")
	_, err = OpenImage("\xff\xfe.png")
	wants(t, err, NotFound, "")
	_, err = OpenSAM3(demo("sam3"), &ModelOptions{Device: "abacus"})
	if err == nil {
		t.Error("the device abacus exists")
	}
	model, photo := openSAM3(t), open(t, "a.png")
	_, err = model.Segment(nil, photo, "\xff", nil)
	wants(t, err, InvalidArgument, "UTF-8")
	_, err = model.Segment(nil, nil, "square", nil)
	wants(t, err, InvalidArgument, "nil")
	_, err = (&SAM3{}).Segment(nil, photo, "square", nil)
	wants(t, err, InvalidArgument, "not opened")
	result := must[*Result](t)(model.Segment(nil, photo, "square", nil))
	for i := 0; i < 2; i++ {
		photo.Close()
		model.Close()
	}
	must[[]Instance](t)(result.Instances())
	_, err = model.Segment(nil, photo, "square", nil)
	wants(t, err, InvalidArgument, "closed")
	result.Close()
	_, err = result.Mask(0)
	wants(t, err, InvalidArgument, "closed")
	_, err = result.Mask(-1)
	wants(t, err, InvalidArgument, "")
}

func TestContextStops(t *testing.T) {
	model := openSAM3(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := model.Segment(ctx, open(t, "a.png"), "square",
		&SegmentOptions{Progress: func(int, uint64, uint64) { cancel() }})
	wants(t, err, Cancelled, "cancel")
	if !errors.Is(err, context.Canceled) {
		t.Error("the context's error is not in it")
	}
	_, err = model.Segment(ctx, open(t, "a.png"), "square", nil)
	wants(t, err, Cancelled, "not begun")
	late, end := context.WithTimeout(context.Background(), 1)
	defer end()
	_, err = model.Segment(late, open(t, "a.png"), "square", nil)
	wants(t, err, Timeout, "")
}

func TestPanicAndExitOfCallbacks(t *testing.T) {
	model := openSAM3(t)
	segment := func(progress Progress) {
		model.Segment(nil, open(t, "a.png"), "square", &SegmentOptions{Progress: progress})
	}
	func() {
		defer func() {
			if caught := recover(); caught != "from the callback" {
				t.Errorf("caught %v", caught)
			}
		}()
		segment(func(int, uint64, uint64) { panic("from the callback") })
		t.Error("the panic was lost")
	}()
	returned, ended := false, make(chan bool)
	go func() {
		defer close(ended)
		segment(func(int, uint64, uint64) { runtime.Goexit() })
		returned = true
	}()
	if <-ended; returned {
		t.Error("the goroutine went on")
	}
	calls := 0
	segment(func(int, uint64, uint64) { calls++; runtime.GC() })
	if calls == 0 {
		t.Error("no progress")
	}
}

func TestEveryGoroutineReadsItsOwnMessage(t *testing.T) {
	var all sync.WaitGroup
	for i := 0; i < 64; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			for k := 0; k < 20; k++ {
				name := fmt.Sprintf("/no/such/place-%d-%d.png", i, k)
				if _, err := OpenImage(name); err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("%v does not name %s", err, name)
				}
				runtime.Gosched()
			}
		}(i)
	}
	all.Wait()
}

func TestCloseAndCollectionDuringCalls(t *testing.T) {
	model := must[*SAM3](t)(OpenSAM3(demo("sam3"), nil))
	var all sync.WaitGroup
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			photo, err := OpenImage(demo("sam3", "samples", "a.png"))
			if err != nil {
				t.Error(err)
				return
			}
			runtime.GC()
			_, err = model.Segment(nil, photo, "square", &SegmentOptions{Threads: 1,
				Progress: func(int, uint64, uint64) {
					if i == 0 {
						model.Close()
					}
				}})
			if err != nil && !errors.Is(err, InvalidArgument) {
				t.Error(err)
			}
		}(i)
	}
	all.Wait()
}
