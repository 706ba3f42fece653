# find_package(floatgate): the targets floatgate::floatgate (shared) and floatgate::static.
get_filename_component(_floatgate_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET floatgate::floatgate)
  add_library(floatgate::floatgate SHARED IMPORTED)
  set_target_properties(floatgate::floatgate PROPERTIES
    IMPORTED_LOCATION "${_floatgate_prefix}/lib/libfloatgate.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_floatgate_prefix}/include")

  add_library(floatgate::static STATIC IMPORTED)
  set_target_properties(floatgate::static PROPERTIES
    IMPORTED_LOCATION "${_floatgate_prefix}/lib/libfloatgate.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_floatgate_prefix}/include"
    INTERFACE_LINK_LIBRARIES "pthread;dl;m")
endif()

unset(_floatgate_prefix)
