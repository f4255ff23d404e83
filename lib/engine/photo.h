// SPDX-License-Identifier: Apache-2.0
// A picture as the engine keeps it: pixels, and what models computed of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/status.h"
#include "core/threads.h"
#include "image/convert.h"
#include "image/picture.h"
#include "model/sam3/sam3.h"

namespace npuseg::engine {

// Pixels of a caller, copied at construction or borrowed until the first use.
struct CallerPixels {
  const uint8_t* data = nullptr;
  size_t bytes = 0;
  image::PixelFormat format = image::PixelFormat::kRgb;
  uint32_t width = 0;
  uint32_t height = 0;
  size_t stride = 0;
};

// Gives borrowed memory back exactly once, at the latest when it is destroyed.
class Release {
 public:
  Release() = default;
  Release(void (*function)(void*), void* user) : function_(function), user_(user) {}
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;
  ~Release() { run(); }
  void run() {
    if (auto* function = function_) {
      function_ = nullptr;
      function(user_);
    }
  }

 private:
  void (*function_)(void*) = nullptr;
  void* user_ = nullptr;
};

// Thread-safe.
class Photo {
 public:
  static core::Result<std::shared_ptr<Photo>> open(const std::string& path,
                                                   const image::DecodeOptions& options);
  static core::Result<std::shared_ptr<Photo>> decode(std::span<const uint8_t> bytes,
                                                     const image::DecodeOptions& options,
                                                     const std::string& where);
  // release may be null. borrow: pixels are read at the first use.
  static core::Result<std::shared_ptr<Photo>> from_pixels(const CallerPixels& pixels, bool borrow,
                                                          std::unique_ptr<Release> release,
                                                          const image::DecodeOptions& options);

  [[nodiscard]] uint32_t width() const { return width_; }
  [[nodiscard]] uint32_t height() const { return height_; }
  [[nodiscard]] uint64_t decode_nanoseconds() const { return decode_nanoseconds_; }

  // The upright RGB pixels; valid while the photo lives.
  core::Result<image::RgbView> pixels();

  // Features for the model of this identity: computed once by `compute`, whatever threads ask at
  // the same time; waiting threads can be stopped through their call.
  using Features = std::shared_ptr<const sam3::ImageFeatures>;
  template <class Compute>
  core::Result<Features> features(uint64_t model, core::Call& call, Compute&& compute);
  void forget();
  [[nodiscard]] size_t feature_bytes() const;

 private:
  struct Entry {
    std::timed_mutex computing;
    Features features;  // guarded by computing, and by mutex_ for readers of sizes
  };
  core::Result<std::shared_ptr<Entry>> lock_entry(uint64_t model, core::Call& call);
  void keep(Entry& entry, const Features& features);

  uint32_t width_ = 0;
  uint32_t height_ = 0;
  uint64_t decode_nanoseconds_ = 0;

  mutable std::mutex mutex_;
  image::Picture picture_;            // guarded by mutex_ until filled, then constant
  CallerPixels borrowed_;             // guarded by mutex_
  std::unique_ptr<Release> release_;  // guarded by mutex_
  image::DecodeOptions options_;
  std::map<uint64_t, std::shared_ptr<Entry>> entries_;  // guarded by mutex_
};

template <class Compute>
core::Result<Photo::Features> Photo::features(uint64_t model, core::Call& call, Compute&& compute) {
  NPUSEG_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, lock_entry(model, call));
  const std::lock_guard guard(entry->computing, std::adopt_lock);
  if (entry->features) return Features(entry->features);
  NPUSEG_ASSIGN_OR_RETURN(const Features made, compute());
  keep(*entry, made);
  return Features(made);
}

}  // namespace npuseg::engine
