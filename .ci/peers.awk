# The tables of .ci/peers, from its lines of repetition, threads, workload, contender and operations a second.

function median(values, count,    i, j, swap) {
    for (i = 2; i <= count; i++)
        for (j = i; j > 1 && values[j - 1] > values[j]; j--) { swap = values[j]; values[j] = values[j - 1]; values[j - 1] = swap }
    return count % 2 ? values[(count + 1) / 2] : (values[count / 2] + values[count / 2 + 1]) / 2
}

function key(threads, workload, contender) { return threads SUBSEP workload SUBSEP contender }

# The median of a contender, 0 if it was not measured.
function of(threads, workload, contender,    k) {
    k = key(threads, workload, contender)
    return k in middle ? middle[k] : 0
}

# The best of a workload's peers, as they are or (`like`) also like ours: sets `best_of`, and returns its name.
function best(threads, workload, like,    name, found, its) {
    best_of = 0; found = ""
    for (name in names) {
        if (name ~ /^(redo|ccstm|packed)/ || (name ~ /\+/ && !like)) continue
        its = of(threads, workload, name)
        if (its > best_of) { best_of = its; found = name }
    }
    return found
}

function short(name) {
    sub(/trinity-vr-tl2/, "TL2", name); sub(/trinity-vr/, "TVR", name)
    sub(/quadra-vr/, "QVR", name); sub(/quadra/, "Q", name)
    return name
}

function cell(threads, workload, what, like,    redo, ccstm) {
    redo = of(threads, workload, "redo"); ccstm = of(threads, workload, "ccstm")
    if (what == "best") return short(best(threads, workload, like))
    if (what == "log" || what == "handle") best_of = of(threads, workload, "packed-log"); else best(threads, workload, like)
    if (what == "handle") redo = of(threads, workload, "redo-handle")
    if (what == "better" && ccstm > redo) redo = ccstm
    if (best_of == 0 || redo == 0) return ""
    return sprintf("%.2f", what == "log" || what == "handle" ? best_of / redo : redo / best_of)
}

# One contender's figures.
function figure(threads, workload, contender,    k) {
    k = key(threads, workload, contender)
    if (!(k in middle)) return ""
    return sprintf(n[k] > 1 ? "%s%.0f (%.0f %%)" : "%s%.0f", k in only_loud ? "~" : "", middle[k] / 1000, spread[k])
}

# Prints a row, unless it is empty: of a contender, or of what is computed.
function row(label, threads, what, like,    i, line, any, text) {
    line = sprintf("%-28s", label)
    for (i = 1; i <= columns_count; i++) {
        text = what == "" ? figure(threads, column[i], label) : cell(threads, column[i], what, like)
        any = any text
        line = line sprintf("%16s", text)
    }
    if (any != "") print line
}

{
    k = key($2, $3, $4)
    if ($6 > 5) { disturbed++; loud[k, ++louds[k]] = $5 + 0 } else value[k, ++n[k]] = $5 + 0
    names[$4]; threads_seen[$2]; if ($1 + 0 > repetitions) repetitions = $1 + 0
}

END {
    columns_count = split(columns, column, " ")
    # A disturbed turn counts where there is no other.
    for (k in louds) if (!n[k]) {
        n[k] = louds[k]
        only_loud[k]
        for (i = 1; i <= n[k]; i++) value[k, i] = loud[k, i]
    }
    for (k in n) {
        for (i = 1; i <= n[k]; i++) sorted[i] = value[k, i]
        middle[k] = median(sorted, n[k])
        spread[k] = 100 * (sorted[n[k]] - sorted[1]) / middle[k]
    }
    printf "%d repetitions; beside %d of %d turns others took more than 5 %% of a processor: these count (with ~)\n", \
        repetitions, disturbed, NR
    print "only where a contender has no other"
    list = "redo redo-handle ccstm ccstm-handle quadra quadra-vr trinity-vr trinity-vr-tl2 quadra+prefetch quadra-vr+prefetch trinity-vr+prefetch"
    list = list " trinity-vr-tl2+prefetch quadra+ours quadra-vr+ours trinity-vr+ours trinity-vr-tl2+ours packed-log"
    rows_count = split(list, rows, " ")
    for (t = 1; t <= 256; t++) {
        if (!(t in threads_seen)) continue
        print ""
        line = sprintf("%-28s", t (t == 1 ? " thread" : " threads in all"))
        for (i = 1; i <= columns_count; i++) line = line sprintf("%16s", column[i])
        print line
        for (r = 1; r <= rows_count; r++) row(rows[r], t, "", 0)
        row("best peer as it is", t, "best", 0)
        row("redo to it", t, "redo", 0)
        row("the better of ours to it", t, "better", 0)
        row("best, those +... as well", t, "best", 1)
        row("redo to it", t, "redo", 1)
        row("the better of ours to it", t, "better", 1)
        # With more threads the log's are apart.
        if (t == 1) {
            row("redo's time to the log's", t, "log", 0)
            row("redo-handle's to the log's", t, "handle", 0)
        }
    }
}
