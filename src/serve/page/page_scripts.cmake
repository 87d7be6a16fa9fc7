# The page's scripts, in the order in which they stand in page.js.
set(scripts dom.js blocks.js inline.js render.js store.js settings.js stream.js gauges.js message.js
    talk.js page.js)
