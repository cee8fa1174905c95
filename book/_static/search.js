/* A site opened as files can't fetch its own pages, so there the search shows titles alone. */
(function () {
  "use strict";

  if (window.location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") {
    DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
  }
})();
