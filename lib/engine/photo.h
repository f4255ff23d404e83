// SPDX-License-Identifier: Apache-2.0
// A picture as the engine keeps it: pixels, and what models computed of them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/status.h"
#include "core/threads.h"
#include "engine/feature_cache.h"
#include "image/convert.h"
#include "image/picture.h"

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
  Photo() = default;
  Photo(const Photo&) = delete;
  Photo& operator=(const Photo&) = delete;
  ~Photo() { forget(); }

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
  // As the file stores it, before it was turned upright; orientation 1 to 8 as in EXIF.
  [[nodiscard]] uint32_t stored_width() const { return turned_aside() ? height_ : width_; }
  [[nodiscard]] uint32_t stored_height() const { return turned_aside() ? width_ : height_; }
  [[nodiscard]] uint32_t orientation() const { return orientation_; }
  [[nodiscard]] uint64_t decode_nanoseconds() const { return decode_nanoseconds_; }

  // The upright RGB pixels; valid while the photo lives.
  core::Result<image::RgbView> pixels();

  // Never that of another picture, however long ago.
  [[nodiscard]] uint64_t identity() const { return identity_; }

  // Features of this picture for the model that owns the cache: computed once by `compute`,
  // whatever threads ask at the same time, and again when the cache had no room for them. Waiting
  // threads can be stopped through their call.
  template <class Features, class Compute>
  core::Result<std::shared_ptr<const Features>> features(const std::shared_ptr<FeatureCache>& cache,
                                                         core::Call& call, Compute&& compute);
  void forget();
  [[nodiscard]] size_t feature_bytes() const;

 private:
  // Whose turn it is to compute. A flag with a condition, not a timed mutex: thread checkers know
  // it, and a waiting call can still be stopped.
  struct Entry {
    std::mutex mutex;
    std::condition_variable done;
    bool computing = false;          // guarded by mutex
    std::thread::id owner;           // guarded by mutex; of who computes
    std::weak_ptr<const void> last;  // of who computes; in use by a call while it lives
  };
  struct Unlock {
    Entry& entry;
    ~Unlock() {
      {
        const std::lock_guard lock(entry.mutex);
        entry.computing = false;
      }
      entry.done.notify_one();
    }
  };
  using Cache = std::shared_ptr<FeatureCache>;
  core::Result<std::shared_ptr<Entry>> lock_entry(const Cache& cache, core::Call& call);
  void keep(const Cache& cache, const std::shared_ptr<Entry>& entry, FeatureCache::Value value,
            size_t bytes);

  static uint64_t new_identity();
  [[nodiscard]] bool turned_aside() const { return options_.apply_exif && orientation_ >= 5; }

  const uint64_t identity_ = new_identity();
  uint32_t width_ = 0;
  uint32_t height_ = 0;
  uint32_t orientation_ = 1;
  uint64_t decode_nanoseconds_ = 0;

  mutable std::mutex mutex_;
  image::Picture picture_;            // guarded by mutex_ until filled, then constant
  CallerPixels borrowed_;             // guarded by mutex_
  std::unique_ptr<Release> release_;  // guarded by mutex_
  image::DecodeOptions options_;
  // By the model's cache; guarded by mutex_.
  std::map<std::weak_ptr<FeatureCache>, std::shared_ptr<Entry>, std::owner_less<>> entries_;
};

template <class Features, class Compute>
core::Result<std::shared_ptr<const Features>> Photo::features(const Cache& cache, core::Call& call,
                                                              Compute&& compute) {
  using Result = std::shared_ptr<const Features>;
  NPUSEG_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, lock_entry(cache, call));
  const Unlock guard{*entry};
  FeatureCache::Value kept = cache->find(identity_);
  if (!kept) kept = entry->last.lock();
  if (kept) return std::static_pointer_cast<const Features>(std::move(kept));
  NPUSEG_ASSIGN_OR_RETURN(const Result made, compute());
  entry->last = made;
  keep(cache, entry, made, made->bytes());
  return Result(made);
}

}  // namespace npuseg::engine
