// Both languages of the page. English is the key, so that a missing translation is still readable.

import { MEANINGS } from "./meanings.js";

const CHINESE = {
  "Jobs": "作业", "Run a Job": "提交作业", "Search jobs": "搜索作业", "All": "全部", "Name": "名称",
  "Phase": "状态", "Reason": "原因", "Ranks": "Rank", "Age": "创建至今", "Duration": "运行时间", "Restarts": "重启次数",
  "No jobs yet": "还没有作业", "No job matches": "没有符合条件的作业", "Start one with": "可以用下面的命令启动一个作业：",
  "Dark theme": "深色主题", "Light theme": "浅色主题", "Keyboard shortcuts": "键盘快捷键", "Close": "关闭",
  "this machine": "本机", "cluster": "集群", "read-only": "只读", "Back to the list": "返回列表", "Logs": "日志",
  "Events": "事件", "Timeline": "时间线", "Objects": "生成的对象", "Suspend": "挂起", "Resume": "恢复",
  "Restart": "重启", "Complete": "标记完成", "Stop": "停止", "Delete": "删除", "Cancel": "取消", "Follow": "跟随",
  "Regex": "正则", "First error": "第一个错误", "Download": "下载", "All ranks": "全部 rank", "lines": "行",
  "Filter lines": "过滤日志", "Why it failed": "失败原因", "What it waits for": "等待原因", "Last lines": "最后的输出",
  "Ended because of it": "因此一并结束", "Check": "检查", "Run": "运行", "Job file": "Job 文件",
  "Paste a Job, or drop a file here": "粘贴 Job 内容，或把文件拖到这里", "The Job is valid": "Job 有效", "The file is larger than 3 MiB": "文件超过 3 MiB",
  "The connection was lost; trying again …": "连接中断，正在重试……", "Time": "时间", "Type": "类型",
  "Message": "说明", "Earlier runs": "以前的运行", "Attempt": "尝试", "newest": "最新",
  "running": "运行中", "succeeded": "成功", "failed": "失败", "Node": "节点", "Container": "容器",
  "Exit code": "退出码", "Show its logs": "查看日志", "Focus the search": "聚焦搜索框", "Next and previous job": "下一个/上一个作业",
  "Open the job": "打开作业", "Back, or close": "返回或关闭", "Show this help": "显示本帮助", "No events": "没有事件",
  "No output yet": "还没有输出", "older lines were dropped": "较早的行已丢弃", "older line was dropped": "较早的行已丢弃", "line": "行", "pending": "等待中",
  "Its pods end; the job is kept and can be resumed.": "结束所有 Pod，作业保留，之后可以恢复。",
  "All pods end and start again; this uses one retry.": "结束并重新启动所有 Pod，消耗一次重试。",
  "Its pods end and the job counts as Completed.": "结束所有 Pod，作业记为 Completed。",
  "The job ends.": "作业将结束。", "The job ends, and its logs and history are removed.": "作业将结束，日志和历史记录会被删除。",
  "The pods of the job start again.": "重新启动作业的 Pod。", "Skip to the content": "跳到正文", "Notes": "说明", "Evidence": "依据", "What stands out": "值得注意", "Choose a file": "选择文件", "No error found": "没有找到错误",
  "failed first": "最先失败", "ended because of it": "因此结束", "Rank": "Rank", "Pod": "Pod", "CPU": "CPU", "GPU": "GPU",
  "Memory": "内存", "Step": "步数", "Loss": "损失", "Progress": "进度", "Attempts": "各次尝试", "Stacks": "调用栈", "Manifest": "清单",
  "As written": "原始内容", "With defaults": "含默认值", "Differences": "差异", "No difference": "没有差异", "Read the stacks": "读取调用栈",
  "Not on a read-only server: reading stacks stops each rank for some milliseconds, and on a cluster it runs a program in the pods.":
    "只读服务器不提供此功能：读取调用栈会使每个 rank 暂停几毫秒，在集群上还会在 Pod 中运行程序。",
  "Each rank stops for some milliseconds.": "每个 rank 会暂停几毫秒。", "Show all": "全部显示", "The expression takes too long": "该正则表达式耗时过长", "The expression is not valid": "正则表达式无效", "The server does not answer": "服务器没有响应", "No pods yet": "还没有 Pod", "Began": "开始时间",
  "Your session has ended; reload the page": "会话已结束，请刷新页面", "The server answered with": "服务器返回",
  "All attempts": "全部尝试", "waited": "等待", "ran": "运行", "Object": "对象", "First": "首次", "Job": "作业", "Normal": "正常", "Warning": "警告",
  "Pending": "等待中", "Running": "运行中", "Succeeded": "成功", "Completed": "已完成", "Failed": "失败", "Unknown": "未知", "Aborted": "已挂起", "Aborting": "挂起中",
  "Terminated": "已停止", "Terminating": "停止中", "Restarting": "重启中", "Completing": "完成中", "Damaged": "已损坏",
  "epoch": "轮次", "step": "步数", "steps/s": "步/秒", "loss": "损失", "left": "剩余",
  "All containers": "全部容器", "First failure": "最先失败", "What you may not see": "没有权限查看的内容",
};

/** @type {Record<string, string>} */
const table = CHINESE;
const KEY = "vcjob-language";

/** @returns {"en" | "zh"} */
export function language() {
  const chosen = localStorage.getItem(KEY);
  if (chosen === "en" || chosen === "zh") return chosen;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

/** @param {"en" | "zh"} chosen */
export function setLanguage(chosen) {
  localStorage.setItem(KEY, chosen);
}

/** The text in the chosen language. @param {string} english */
export function t(english) {
  return language() === "zh" ? (table[english] ?? english) : english;
}

/** What a cause or a reason means, where the page is in Chinese: messages are in English. @param {string} word */
export function meaning(word) {
  return language() === "zh" ? (MEANINGS[word] ?? "") : "";
}

/** A duration in its two largest units. @param {number} seconds */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const units = /** @type {[number, string][]} */ ([[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]]);
  const first = units.findIndex(([size]) => whole >= size);
  if (first < 0) return "0s";
  const [size, name] = units[first];
  const text = `${Math.floor(whole / size)}${name}`;
  const next = units[first + 1];
  const rest = next ? Math.floor((whole % size) / next[0]) : 0;
  return rest ? `${text}${rest}${next[1]}` : text;
}

/** The time of day. @param {number | string | null | undefined} when seconds since the epoch, or RFC 3339 */
export function clock(when) {
  return moment(when).slice(11);
}

/** The day and the time, the same in both languages. @param {number | string | null | undefined} when seconds since the epoch, or RFC 3339 */
export function moment(when) {
  if (when === null || when === undefined) return "";
  const date = new Date(typeof when === "number" ? when * 1000 : when);
  if (isNaN(date.getTime())) return "";
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":")}`;
}
