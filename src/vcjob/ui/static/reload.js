// Loads the page again where a script or the style did not arrive, as when the network of this machine changes at that
// moment: a browser asks for each of them only once. After three attempts it says what to check. No module: it has to
// work where those are missing.

{
  const KEY = "vcjob-reloads";
  const MOST = 3;
  const attempts = Number(sessionStorage.getItem(KEY));
  let failed = false;

  /** @param {EventTarget | null} part */
  const isNeeded = (part) =>
    part instanceof HTMLScriptElement || (part instanceof HTMLLinkElement && part.rel === "stylesheet");

  const say = () => {
    const banner = document.getElementById("banner");
    if (!banner) return;
    banner.hidden = false;
    banner.textContent = navigator.language.startsWith("zh")
      ? "页面的一部分没有加载成功。请确认 vcjob ui 仍在运行，然后重新加载页面。"
      : "A part of this page could not be loaded. Check that vcjob ui is still running, then load the page again.";
  };

  /** @param {ErrorEvent} event */
  const check = (event) => {
    if (failed || !isNeeded(event.target)) return;
    failed = true;
    if (attempts < MOST) {
      sessionStorage.setItem(KEY, String(attempts + 1));
      setTimeout(() => location.reload(), 200 * 2 ** attempts);
    } else {
      sessionStorage.removeItem(KEY);
      say();
    }
  };

  addEventListener("error", check, true);
  addEventListener("load", () => {
    removeEventListener("error", check, true);
    if (!failed) sessionStorage.removeItem(KEY);
  });
}
