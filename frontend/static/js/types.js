/**
 * The picture's rows as they come over the socket: the mirror of fleet/domain/picture.py, only what screens read.
 *
 * @typedef {{name: string, capacity: number, allocatable: number, allocated: number, free: number, overcommit: number,
 *   shared: boolean, mig: boolean, failed: number, unknown: number}} Resource
 * @typedef {{type: string, status: string, reason: string, message: string, since_at: number | null}} Condition
 * @typedef {{name: string, pool: string, zone: string, product: string, product_name: string, memory_mib: number | null,
 *   cells: string, level: string, reasons: string[], planned: string, usable: boolean, ready: string, unschedulable: boolean,
 *   cordoned_at: number | null, cordoned_by: string, taints: string[], closed_by: string, physical: number | null, resources: Resource[],
 *   measured: boolean, gpu_workloads: string[],
 *   conditions: Condition[], created_at: number | null, kubelet: string, kernel: string, os_image: string, runtime: string,
 *   driver: string, cuda: string, machine: string, address: string}} NodeRow
 * @typedef {number | "n/a" | null} Measure  null: unknown
 * @typedef {{node: string, index: number, uuid: string, pci: string, state: string, reason: string, level: string, soft: boolean,
 *   action: string, since_at: number | null, read_at: number | null, utilization_pct: Measure, memory_used_mib: Measure,
 *   memory_total_mib: Measure, memory_reserved_mib: Measure, temperature_c: Measure, memory_temperature_c: Measure, power_w: Measure,
 *   power_limit_w: Measure, sm_clock_mhz: Measure, clock_reasons: string[], ecc_corrected: Measure, ecc_uncorrected: Measure,
 *   remap: Measure[], nvlinks: Measure[], pcie: Measure[], pods: string[] | null, users: number | null, strangers: number,
 *   idle_since_at: number | null, findings: {rule: string, evidence: string, instance: string}[],
 *   instances: {uuid: string, state: string, pods: string[]}[]}} GpuRow
 * @typedef {{namespace: string, name: string, node: string, status: string, level: string, ready: number, containers: number,
 *   restarts: number, gpus: number, owner_kind: string, team: string, budgets: string[], grace_s: number | null,
 *   empty_dir: boolean, daemon: boolean, mirror: boolean, claims: number, created_at: number | null, product: string,
 *   resources: [string, number][], waiting_reason: string, waiting_message: string, terminating_at: number | null, stage: string,
 *   template: string, ready_at: number | null, workload: string}} PodRow
 * @typedef {{kind: string, namespace: string, name: string, team: string, desired: number | null, updated: number | null, ready: number,
 *   available: number | null, gpus_per_pod: number, gpus: number, short_since_at: number | null, paused: boolean, budgets: string[],
 *   created_at: number | null}} WorkloadRow
 * @typedef {{standing: string, level: string, target_s: number | null, newest_at: number | null, reported_at: number | null, skew_s: number}} CheckpointRow
 * @typedef {{cause: string, level: string, pods: number, pod: string, since_at: number | null, evidence: string,
 *   facts: [string, string | number | null][]}} HoldupRow
 * @typedef {{kind: string, strategy: string, verdict: string, step: string, have: number, want: number, desired: number, available: number,
 *   surge: number | null, unavailable: number | null, max_pods: number | null, min_available: number | null, partition: number,
 *   paused: boolean, revision: string, was: string, template: string | null, old: number, new: number, terminating: number,
 *   old_gpus: number, new_gpus: number, terminating_gpus: number, gpus_per_pod: number, gpus_per_old_pod: number, answering: number,
 *   old_stages: [string, number][], new_stages: [string, number][], remarks: string[], started_at: number | null,
 *   deadline_at: number | null, eta_at: number | null, ready_after_s: number | null, seen: number, holdups: HoldupRow[]}} RolloutRow
 * @typedef {{product: string, free: number, fragmentation: [number, number | null][]}} ProductRow
 * @typedef {{nodes: number, nodes_ready: number, gpus: number, available: number, cordoned: number, tainted: number, silent: number,
 *   withdrawn: number, failed: number, unknown: number, free: number, overcommit: number, largest_hole: number, largest_hole_node: string,
 *   largest_hole_product: string, slots: [number, number][], fragmentation: [number, number | null][], waiting_pods: number,
 *   waiting_since_at: number | null, waiting_gpus: number, claims: number, cells: [string, number][], trainings: number,
 *   behind: number, unsaved: number, unseen: number}} FleetRow
 * @typedef {{kind: string, level: string, rank: number, subject: string, node: string, since_at: number | null,
 *   facts: [string, string | number | null][], nodes: string[]}} AttentionRow
 * @typedef {{labels: [string, string][], annotations: [string, string][]}} LabelsRow
 * @typedef {{node: string, kind: string, namespace: string, name: string, type: string, reason: string, message: string,
 *   count: number, last_at: number | null, source: string}} EventRow
 *
 * @typedef {{fleet: Record<string, FleetRow>, products: Record<string, ProductRow>, nodes: Record<string, NodeRow>,
 *   pods: Record<string, PodRow>, workloads: Record<string, WorkloadRow>, attention: Record<string, AttentionRow>,
 *   labels: Record<string, LabelsRow>, events: Record<string, EventRow>, gpus: Record<string, GpuRow>, rollouts: Record<string, RolloutRow>,
 *   checkpoints: Record<string, CheckpointRow>}} Tables
 *
 * @typedef {[number, number]} Version  epoch and number
 * @typedef {{ids: string[], set: Record<string, unknown[]>}} Group
 * @typedef {{groups: Group[], gone: string[]}} TableDelta
 * @typedef {Record<string, TableDelta>} Delta
 * @typedef {[string, string, number]} Trouble  kind, reason, for how many seconds
 *
 * @typedef {{t: "snapshot", v: Version, at: number, now: number, tables: Record<string, Record<string, object>>,
 *   cluster?: string}} SnapshotFrame
 * @typedef {{t: "delta", prev: Version, v: Version, at: number, tables: Delta, cluster?: string}} DeltaFrame
 * @typedef {{t: "pulse", v: Version, at: number, now: number, trouble: Trouble[], lost: boolean, reason: string,
 *   cluster?: string}} PulseFrame
 * @typedef {{t: "bye", reason: string}} ByeFrame
 * @typedef {SnapshotFrame | DeltaFrame | PulseFrame | ByeFrame} Frame
 *
 * What the server tells the scripts of a page.
 * @typedef {{screen: string, node?: string, workload?: string}} View
 * @typedef {{cluster: string, view: View | null, lang: string, words: Record<string, string | string[]>, node_url: string,
 *   gpu_url: string, rollout_url: string, training_url: string,
 *   page_urls: Record<string, string>, do_urls: Record<string, string>,
 *   sign_in_url: string, placeholder: string, at: number | null, loss: string, socket: string, now: number}} Page
 */
export {};
