/* SPDX-License-Identifier: Apache-2.0 */
/* The output for programs: one line of JSON, made by jansson. */
#include "info.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print(json_t *root)
{
    /* ensure-ASCII: a variable may contain any bytes */
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

    if (!text) {
        fprintf(stderr, INFO_NAME ": no memory for JSON\n");
        exit(1);
    }
    puts(text);
    free(text);
    json_decref(root);
}

/* Bytes that are not UTF-8 become question marks. */
static json_t *text_value(const char *text)
{
    json_t *value = json_string(text);
    char *copy;

    if (value || !(copy = strdup(text)))
        return value;
    for (char *p = copy; *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    value = json_string(copy);
    free(copy);
    return value;
}

static json_t *names_of(unsigned long flags, const char *names)
{
    json_t *list = json_array();

    for (unsigned long bit = 1; names; bit <<= 1) {
        size_t n = strcspn(names, "|");
        if (flags & bit)
            json_array_append_new(list, json_stringn(names, n));
        names = names[n] ? names + n + 1 : NULL;
    }
    return list;
}

static json_t *job_value(const struct info *info)
{
    const struct ut_job_info *job = info->process->job;
    json_t *coords = json_array();

    for (size_t i = 0; i < sizeof(info->coords); i++)
        json_array_append_new(coords, json_integer(info->coords[i]));
    return json_pack("{s:s, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "launcher", job->launcher,
                     "id", text_value(job->id), "rank", (int)job->rank, "size", (int)job->size,
                     "node", (int)job->node, "num_nodes", (int)job->num_nodes, "local_rank",
                     (int)job->local_rank, "local_size", (int)job->local_size, "coordinates",
                     coords);
}

static json_t *cqs_value(const struct ut_process *process)
{
    json_t *ids = json_array();

    for (unsigned int i = 0; i < process->num_cqs; i++)
        json_array_append_new(ids, json_integer(process->cq_ids[i]));
    return json_pack("{s:o, s:i, s:i}", "ids", ids, "num_exclusive", (int)process->num_exclusive,
                     "num_session_mode", (int)process->num_session);
}

static json_t *port_value(const struct prov_port *port)
{
    json_t *tnis = json_array();

    for (unsigned int t = 0; t < UT_NUM_TNIS; t++)
        if (port->tnis & 1u << t)
            json_array_append_new(tnis, json_integer(t));
    json_t *value = json_pack(
        "{s:s, s:i, s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:I, s:i, s:i, s:i, s:s, s:i, s:I, s:i, "
        "s:i, s:b, s:o}",
        "device", port->device, "port", (int)port->port, "link", port->link, "state", port->state,
        "netdev", port->netdev, "gid_index", port->gid_index, "gid", port->gid, "address",
        port->address, "network", port->network, "speed_mbit", (json_int_t)port->speed, "numa_node",
        port->numa_node, "mtu", (int)port->mtu, "max_mtu", (int)port->max_mtu, "atomics",
        port->atomics, "max_inline", (int)port->max_inline, "max_connections",
        (json_int_t)port->max_conns, "shared_receives", (int)port->srq_depth,
        "receives_per_connection", (int)port->rq_depth, "in_use", port->tnis != 0, "tnis", tnis);
    if (port->tnis) {
        json_object_set_new(value, "connects_by", text_value(port->connects_by));
        json_object_set_new(value, "data_in_order", json_boolean(!port->any_order));
        json_object_set_new(value, "data_in_order_unit", json_integer(port->order_unit));
        json_object_set_new(value, "relaxed_keys", json_boolean(port->relaxed_keys));
        json_object_set_new(value, "data_in_order_why", text_value(port->order_why));
        json_object_set_new(value, "long_puts", text_value(port->parts));
        json_object_set_new(value, "ece_vendor", json_integer(port->ece_vendor));
        json_object_set_new(value, "ece_options", json_integer(port->ece_options));
    } else {
        json_object_set_new(value, "why_not", text_value(port->why_not));
    }
    return value;
}

static json_t *onesided_value(const struct utofu_onesided_caps *c)
{
    return json_pack(
        "{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "flags",
        names_of(c->flags, info_onesided_flags), "armw_ops", names_of(c->armw_ops, info_armw_ops),
        "num_cmp_ids", (json_int_t)c->num_cmp_ids, "num_reserved_stags",
        (json_int_t)c->num_reserved_stags, "cache_line_size", (json_int_t)c->cache_line_size,
        "stag_address_alignment", (json_int_t)c->stag_address_alignment, "max_toq_desc_size",
        (json_int_t)c->max_toq_desc_size, "max_putget_size", (json_int_t)c->max_putget_size,
        "max_piggyback_size", (json_int_t)c->max_piggyback_size, "max_edata_size",
        (json_int_t)c->max_edata_size, "max_mtu", (json_int_t)c->max_mtu, "max_gap",
        (json_int_t)c->max_gap);
}

static json_t *tni_value(const struct info *info, const struct info_tni *tni)
{
    json_t *value = json_pack("{s:i}", "id", (int)tni->id), *ways = json_object();

    for (int p = 0; p < PROV_COUNT; p++)
        if (info->process->prov[p])
            json_object_set_new(ways, info->process->prov[p]->ops->name,
                                text_value(tni->transport[p].device));
    json_object_set_new(value, "transports", ways);
    if (tni->onesided)
        json_object_set_new(value, "onesided", onesided_value(tni->onesided));
    if (tni->barrier)
        json_object_set_new(
            value, "barrier",
            json_pack("{s:o, s:I, s:I}", "reduce_ops",
                      names_of(tni->barrier->reduce_ops, info_reduce_ops), "max_uint64_reduction",
                      (json_int_t)tni->barrier->max_uint64_reduction, "max_double_reduction",
                      (json_int_t)tni->barrier->max_double_reduction));
    return value;
}

static void add_process(json_t *root, const struct info *info)
{
    json_t *in_use = json_array(), *tnis = json_array();
    char wanted[32];

    for (int p = 0; p < PROV_COUNT; p++)
        if (info->process->prov[p])
            json_array_append_new(in_use, json_string(info->process->prov[p]->ops->name));
    for (unsigned int i = 0; i < info->num_tnis; i++)
        json_array_append_new(tnis, tni_value(info, &info->tnis[i]));
    info_env_value(ut_env_get(UT_ENV_PROVIDER), wanted, sizeof(wanted));
    json_object_set_new(root, "job", job_value(info));
    json_object_set_new(root, "provider",
                        json_pack("{s:s, s:o, s:s}", "wanted", wanted, "in_use", in_use, "why",
                                  info->provider_why));
    json_object_set_new(root, "atomics",
                        json_pack("{s:s, s:s}", "mode",
                                  info->process->armw_mode == UT_ARMW_NIC ? "nic" : "cpu", "why",
                                  info->armw_why));
    json_object_set_new(root, "cqs", cqs_value(info->process));
    json_object_set_new(root, "tnis", tnis);
}

static json_t *root_value(const struct info *info)
{
    return json_pack("{s:s, s:s, s:o}", "tool", INFO_NAME, "version", UT_VERSION, "host",
                     text_value(info->host));
}

void info_json(const struct info *info)
{
    json_t *root = root_value(info), *ports = json_array();

    json_object_set_new(root, "utofu_version",
                        json_pack("[ii]", info->utofu_version[0], info->utofu_version[1]));
    json_object_set_new(root, "tofu_version",
                        json_pack("[ii]", info->tofu_version[0], info->tofu_version[1]));
    for (unsigned int i = 0; i < info->num_ports; i++)
        json_array_append_new(ports, port_value(&info->ports[i]));
    json_object_set_new(root, "ports", ports);
    if (info->process)
        add_process(root, info);
    else
        json_object_set_new(root, "error", text_value(info->error));
    print(root);
}

void info_json_environment(void)
{
    json_t *list = json_array(), *unknown = json_array(), *old = json_array();

    for (int i = 0; i < UT_ENV_COUNT; i++) {
        const struct ut_env_entry *e = ut_env_get(i);
        char value[1024], def[128], allowed[320], label[UT_ENV_LABEL_SIZE];
        if (!ut_env_is_shown(e))
            continue;
        ut_env_label(e, label, sizeof(label));
        info_env_value(e, value, sizeof(value));
        info_env_default(e, def, sizeof(def));
        ut_env_allowed(e, allowed, sizeof(allowed));
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:s, s:o, s:b, s:b, s:s}", "name", label,
                                        "type", info_env_type(e), "allowed", allowed, "default",
                                        def, "value", text_value(value), "set", (int)e->is_set,
                                        "valid", e->why_bad == NULL, "meaning", e->help));
    }
    const struct ut_env_entry *e;
    for (int at = 0; (e = ut_env_next_old(&at));) {
        char spelling[1024];
        ut_env_spell(e, spelling, sizeof(spelling));
        json_array_append_new(
            old, json_pack("{s:s, s:o}", "name", e->old_name, "write", text_value(spelling)));
    }
    struct ut_env_misspelt m;
    for (char **at = environ; ut_env_next_misspelt(&at, &m);) {
        char text[256];
        snprintf(text, sizeof(text), "%.*s", m.length, m.name);
        json_array_append_new(
            unknown, json_pack("{s:o, s:s}", "name", text_value(text), "nearest", m.meant));
    }
    print(json_pack("{s:s, s:s, s:o, s:o, s:o}", "tool", INFO_NAME, "version", UT_VERSION,
                    "environment", list, "old", old, "unknown", unknown));
}

void info_json_codes(const struct ut_code *const *codes, size_t num)
{
    json_t *list = json_array();

    for (size_t i = 0; i < num; i++)
        json_array_append_new(list, json_pack("{s:s, s:i, s:s, s:s}", "name", codes[i]->name,
                                              "number", codes[i]->number, "meaning",
                                              codes[i]->meaning, "remedy", codes[i]->remedy));
    print(json_pack("{s:s, s:s, s:o}", "tool", INFO_NAME, "version", UT_VERSION, "codes", list));
}

void info_json_checks(const struct info *info, const struct info_checks *checks)
{
    static const char *const verdicts[] = {"ok", "note", "fail"};
    json_t *root = root_value(info), *list = json_array();

    for (unsigned int i = 0; i < checks->num; i++) {
        const struct info_check *c = &checks->list[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o}", "name", c->name, "verdict",
                                              verdicts[c->verdict], "text", text_value(c->text),
                                              "remedy", text_value(c->remedy)));
    }
    if (info->process)
        json_object_set_new(root, "rank", json_integer(info->process->job->rank));
    json_object_set_new(root, "checks", list);
    json_object_set_new(root, "num_failed", json_integer(checks->num_failed));
    print(root);
}
