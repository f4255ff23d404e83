# A room is one object library; its include path holds only itself and the rooms it USES, so a
# forbidden include does not compile (design: arrows only run down).
#
#   npuseg_room(image SOURCES a.cc b.cc USES core LIBRARIES JPEG::JPEG)
#
# Headers are reached as "<room>/<file>.h". Each room's headers are seen through a folder of
# symbolic links in the build tree that holds exactly the allowed rooms.
set_property(GLOBAL PROPERTY NPUSEG_ROOMS "")

function(npuseg_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;USES;LIBRARIES;DEFINITIONS" ${ARGN})
  string(REPLACE "/" "_" target "npuseg_${name}")
  list(TRANSFORM ROOM_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  add_library(${target} OBJECT ${ROOM_SOURCES})
  set(view "${PROJECT_BINARY_DIR}/rooms/${name}")
  file(REMOVE_RECURSE "${view}")
  foreach(used IN LISTS ROOM_USES ITEMS ${name})
    get_filename_component(parent "${view}/${used}" DIRECTORY)
    file(MAKE_DIRECTORY "${parent}")
    if(NOT EXISTS "${view}/${used}")
      file(CREATE_LINK "${PROJECT_SOURCE_DIR}/lib/${used}" "${view}/${used}" SYMBOLIC)
    endif()
  endforeach()
  target_include_directories(${target} PRIVATE "${view}")
  target_link_libraries(${target} PRIVATE npuseg_flags ${ROOM_LIBRARIES})
  target_compile_definitions(${target} PRIVATE ${ROOM_DEFINITIONS})
  set_property(GLOBAL APPEND PROPERTY NPUSEG_ROOMS ${target})
  set_property(GLOBAL APPEND PROPERTY NPUSEG_ROOM_LIBRARIES ${ROOM_LIBRARIES})
endfunction()

# A unit test program of a room: C++ with cmocka, linked with all rooms (hidden symbols included).
# A test may only include the room under test and what that room may use; tests are not shipped, so
# their include path is simply lib/.
function(npuseg_unit_test name)
  cmake_parse_arguments(TEST "" "TIMEOUT" "SOURCES;LABELS;LIBRARIES" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/lib"
                                             "${PROJECT_SOURCE_DIR}/tests/support")
  target_compile_definitions(${name} PRIVATE NPUSEG_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE npuseg_internal npuseg_flags PkgConfig::CMOCKA
                                        ${TEST_LIBRARIES})
  add_test(NAME ${name} COMMAND ${name})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "unit;${TEST_LABELS}" TIMEOUT ${TEST_TIMEOUT}
                                          SKIP_RETURN_CODE 77)
endfunction()
