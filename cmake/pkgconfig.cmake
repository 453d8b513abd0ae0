# cosformer.pc and, where it is built, cosformer-runtime.pc: for programs that do not use CMake. They
# find their prefix by where they lie, as `cmake --install --prefix` may put them anywhere.
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
file(RELATIVE_PATH pc_libdir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH pc_includedir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})

# Static libraries ask their user for all that they are made of; shared ones brought it along.
function(add_pkgconfig name target description)
  cmake_parse_arguments(PC "" "" "REQUIRES;PARTS;NEEDS;OPTIONS" ${ARGN})
  set(pc_name ${name})
  set(pc_description ${description})
  set(pc_requires ${PC_REQUIRES})
  set(pc_libs -L\${libdir} -l${target})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    list(APPEND pc_requires ${PC_NEEDS})
    foreach(part IN LISTS PC_PARTS)
      list(APPEND pc_libs -l${part})
    endforeach()
    list(APPEND pc_libs ${PC_OPTIONS})
    # A program in C is linked by a compiler that does not bring along C++'s own.
    foreach(library IN LISTS OpenMP_CXX_LIB_NAMES CMAKE_DL_LIBS CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
      if(library MATCHES "^(gomp|omp|iomp5|pthread|stdc\\+\\+|c\\+\\+|m|dl)$")
        list(APPEND pc_libs -l${library})
      endif()
    endforeach()
  endif()
  list(REMOVE_DUPLICATES pc_libs)
  list(JOIN pc_requires ", " pc_requires)
  list(JOIN pc_libs " " pc_libs)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/cosformer.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

add_pkgconfig(cosformer cosformer_attention "Linear attention (cosFormer), and softmax beside it"
  PARTS cosformer_base
  NEEDS libhwy zlib)
if(TARGET cosformer_runtime)
  add_pkgconfig(cosformer-runtime cosformer_runtime
    "Runs trained models: the C++ library and the C API of cosformer"
    REQUIRES "cosformer = ${PROJECT_VERSION}"
    PARTS cosformer_tokenizer cosformer_formats cosformer_kernels cosformer_report
    NEEDS fmt libhwy zlib
    # Where the module with SentencePiece is.
    OPTIONS -Wl,-rpath,\${libdir})
endif()
