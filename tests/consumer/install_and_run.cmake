include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
file(REMOVE_RECURSE ${WORK})
set(c_compiler "")
if(C_COMPILER)
  set(c_compiler -DCMAKE_C_COMPILER=${C_COMPILER})
endif()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${PROGRAM} -B ${WORK}/build -G ${GENERATOR}
    -DCMAKE_CXX_COMPILER=${COMPILER} ${c_compiler} -DCMAKE_BUILD_TYPE=${BUILD_TYPE}
    -DCMAKE_CXX_FLAGS=${flags} -DCMAKE_C_FLAGS=${flags} -DCMAKE_PREFIX_PATH=${WORK}/prefix
    --no-warn-unused-cli)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run_consumer(${WORK}/build/consumer)
