# ig_embed_pages(OUT): the files of page/ as bytes in one C file, made when they change.
#
# `page.html` is served at /, the others under their names. Run as a script (-P) it writes
# the file: -DOUT=... -DDIR=...

if(CMAKE_SCRIPT_MODE_FILE)
    file(GLOB names RELATIVE ${DIR} ${DIR}/*.html ${DIR}/*.js ${DIR}/*.css ${DIR}/*.svg)
    list(SORT names)
    set(text "/* Made by embed.cmake. */\n#include \"serve/page.h\"\n\n")
    set(rows "")
    set(n 0)
    foreach(name ${names})
        file(READ ${DIR}/${name} hex HEX)
        string(LENGTH "${hex}" length)
        math(EXPR length "${length} / 2")
        string(REGEX REPLACE "(..)" "0x\\1," hex "${hex}")
        string(APPEND text "static const unsigned char page_${n}[] = {${hex}0};\n")
        set(type "text/html; charset=utf-8")
        if(name MATCHES "\\.js$")
            set(type "text/javascript; charset=utf-8")
        elseif(name MATCHES "\\.css$")
            set(type "text/css; charset=utf-8")
        elseif(name MATCHES "\\.svg$")
            set(type "image/svg+xml")
        endif()
        set(path "/${name}")
        if(name STREQUAL "page.html")
            set(path "/")
        endif()
        string(APPEND rows "    {\"${path}\", \"${type}\", page_${n}, ${length}},\n")
        math(EXPR n "${n} + 1")
    endforeach()
    string(APPEND text "\nconst ig__page ig__pages_of_server[] = {\n${rows}    {0}};\n"
                       "const int ig__n_pages = ${n};\n")
    file(WRITE ${OUT} "${text}")
    return()
endif()

function(ig_embed_pages out)
    set(dir ${CMAKE_CURRENT_SOURCE_DIR}/page)
    file(GLOB files CONFIGURE_DEPENDS ${dir}/*.html ${dir}/*.js ${dir}/*.css ${dir}/*.svg)
    add_custom_command(OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DDIR=${dir} -P ${CMAKE_CURRENT_SOURCE_DIR}/embed.cmake
        DEPENDS ${files} ${CMAKE_CURRENT_SOURCE_DIR}/embed.cmake VERBATIM)
endfunction()
