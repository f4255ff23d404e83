# One interface target with the flags of all our code; nothing global, nothing PUBLIC.
add_library(npuseg_flags INTERFACE)
target_compile_options(npuseg_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Wvla
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<BOOL:${NPUSEG_WERROR}>:-Werror>
  # FMA contraction would make results depend on the compiler; where fma is wanted it is written.
  -ffp-contract=off
  -fno-gnu-unique
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlaps that cannot be in std::string concatenations (GCC bug 105329, fixed in 13).
  target_compile_options(npuseg_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # clang has no -fno-gnu-unique (it never emits unique symbols by default on ELF).
  get_target_property(options npuseg_flags INTERFACE_COMPILE_OPTIONS)
  list(REMOVE_ITEM options -fno-gnu-unique)
  set_target_properties(npuseg_flags PROPERTIES INTERFACE_COMPILE_OPTIONS "${options}")
endif()
if(NPUSEG_SANITIZE)
  # For everything, C test programs included: a sanitizer's run-time library must be in the program.
  add_compile_options(-fsanitize=${NPUSEG_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${NPUSEG_SANITIZE})
endif()
if(NPUSEG_BUILD_FUZZERS)
  target_compile_options(npuseg_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(NPUSEG_WITH_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  target_compile_options(npuseg_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>)
  target_link_libraries(npuseg_flags INTERFACE ${OpenMP_CXX_LIBRARIES})
endif()
