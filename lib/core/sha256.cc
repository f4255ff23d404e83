// SPDX-License-Identifier: Apache-2.0
#include "core/sha256.h"

#if NPUSEG_WITH_OPENSSL
#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "core/file.h"
#endif

namespace npuseg::core {

#if NPUSEG_WITH_OPENSSL

namespace {

struct Closer {
  int file = -1;
  ~Closer() {
    if (file >= 0) ::close(file);
  }
};

Status failed() { return {Code::kInternal, "cannot compute SHA-256: libcrypto failed"}; }

}  // namespace

bool has_sha256() { return true; }

Result<std::string> sha256_of_file(const std::string& path, Call& call) {
  const auto unreadable = [&] {
    const int error = errno;
    return Status(error == ENOENT ? Code::kNotFound : Code::kIo,
                  "cannot read file: " + path + ": " + errno_text(error));
  };
  const Closer closer{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (closer.file < 0) return unreadable();
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   &EVP_MD_CTX_free);
  if (!context) return Status(Code::kOutOfMemory, "cannot compute SHA-256: no memory");
  if (EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) return failed();
  std::vector<unsigned char> piece(kSha256Piece);
  for (;;) {
    NPUSEG_RETURN_IF_ERROR(call.check());
    size_t filled = 0;
    while (filled < piece.size()) {
      const ssize_t got = ::read(closer.file, piece.data() + filled, piece.size() - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return unreadable();
      if (got == 0) break;
      filled += static_cast<size_t>(got);
    }
    if (filled == 0) break;
    if (EVP_DigestUpdate(context.get(), piece.data(), filled) != 1) return failed();
    call.advance();
    if (filled < piece.size()) break;
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_DigestFinal_ex(context.get(), digest, &size) != 1) return failed();
  constexpr const char* kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex.push_back(kDigits[digest[i] >> 4]);
    hex.push_back(kDigits[digest[i] & 15]);
  }
  return hex;
}

#else

bool has_sha256() { return false; }

Result<std::string> sha256_of_file(const std::string& path, Call&) {
  return Status(Code::kUnsupported, "cannot compute SHA-256: " + path +
                                        ": this build of npuseg is without libcrypto; build it "
                                        "with NPUSEG_WITH_OPENSSL");
}

#endif

}  // namespace npuseg::core
