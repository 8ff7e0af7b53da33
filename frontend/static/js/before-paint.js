// Before the first paint: the remembered theme, and the time zone for the next page that the server renders.
// A classic script, so that it runs before anything is shown.
(() => {
  try {
    const theme = localStorage.getItem("vigie-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be forbidden: then the system's theme it is.
  }
  const zone = encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone ?? "");
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `vigie-zone=${zone}; path=/; max-age=31536000; samesite=lax${secure}`;
})();
