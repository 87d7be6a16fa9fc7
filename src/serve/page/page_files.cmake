# Puts the page's files together, and writes each as an array that page.c includes.
#
#   cmake -D OUT=folder -P page_files.cmake
#
# writes OUT/page.html, page.css, page.js   what is served
#        OUT/page_html.inc, ...             the same bytes, as numbers
#
# page.js is the scripts of this folder, one behind the other: they share one scope, and the
# browser has one file to fetch.

set(here ${CMAKE_CURRENT_LIST_DIR})
include(${here}/page_scripts.cmake)

set(script "\"use strict\";\n")
foreach(name ${scripts})
    file(READ ${here}/${name} part)
    string(APPEND script "\n${part}")
endforeach()
file(WRITE ${OUT}/page.js "${script}")
foreach(name page.html page.css)
    configure_file(${here}/${name} ${OUT}/${name} COPYONLY)
endforeach()

foreach(name page.html page.css page.js)
    file(READ ${OUT}/${name} bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
           "\\1\n" bytes "${bytes}")
    string(REPLACE "." "_" name ${name})
    file(WRITE ${OUT}/${name}.inc "${bytes}\n")
endforeach()
